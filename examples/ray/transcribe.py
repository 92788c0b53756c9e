"""Transcripts of a folder of recordings with Ray Data: `transcribe.py --model whisper-tiny RECORDINGS…`."""

import argparse
import time

import ray

import akunu


class Transcribe:
    """One actor: a loaded model."""

    def __init__(self, model, threads, options):
        self.model = akunu.Model(model, task="transcribe", threads=threads)
        self.options = options

    def __call__(self, row):
        transcript = self.model.transcribe(row["bytes"], **self.options)
        return {"path": row["path"], "language": transcript.language, "text": transcript.text}


def transcripts(recordings, model, actors=1, threads=None, **options):
    """Rows with `path`, `language` and `text`; `recordings` are files or folders, on any storage that Ray reads."""
    return ray.data.read_binary_files(recordings, include_paths=True).map(
        Transcribe,
        fn_constructor_kwargs={"model": model, "threads": threads, "options": options},
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_cpus=threads or 1,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="whisper-tiny")
    parser.add_argument("--actors", type=int, default=1)
    parser.add_argument("--threads", type=int, help="of each actor [default: all, divided among the actors]")
    parser.add_argument("recordings", nargs="+")
    options = parser.parse_args()
    ray.init(ignore_reinit_error=True)
    threads = options.threads or max(1, int(ray.cluster_resources()["CPU"]) // options.actors)
    begun = time.perf_counter()
    for row in transcripts(options.recordings, options.model, options.actors, threads).iter_rows():
        print(f"{row['path']}: {row['text']}")
    print(f"{options.actors} actors, {threads} threads each: {time.perf_counter() - begun:.2f} s")


if __name__ == "__main__":
    main()
