"""Vectors of a dataset with Ray Data: `embed.py [--model MODEL] [--actors N] [--texts N] [TEXTS…]`.

Every actor loads the model once and embeds batches as they come; batches travel as Arrow columns, vectors as numpy arrays.
TEXTS are files with a text a line, or folders of them; without any it makes some up.
"""

import argparse
import time

import ray

import akunu


class Embed:
    """One actor: a loaded model."""

    def __init__(self, model, threads):
        self.model = akunu.Model(model, task="embed", threads=threads)

    def __call__(self, batch):
        batch["vector"] = self.model.embed(list(batch["text"]), truncate=True)
        return batch


def vectors(dataset, model=None, actors=1, threads=None, batch_size=256):
    """The dataset with a column `vector` beside its column `text`."""
    return dataset.map_batches(
        Embed,
        fn_constructor_kwargs={"model": model, "threads": threads},
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_cpus=threads or 1,
        batch_size=batch_size,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="a model file or a name [default: the one inside the package]")
    parser.add_argument("--actors", type=int, default=1)
    parser.add_argument("--threads", type=int, help="of each actor [default: all, divided among the actors]")
    parser.add_argument("--texts", type=int, default=2000, help="how many to make up")
    parser.add_argument("--output", help="a folder for Parquet files")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    ray.init(ignore_reinit_error=True)
    threads = options.threads or max(1, int(ray.cluster_resources()["CPU"]) // options.actors)
    if options.files:
        dataset = ray.data.read_text(options.files)
    else:
        made_up = ({"text": f"Story {i} is about {'a dog ' * (i % 9)}and the number {i * i}."} for i in range(options.texts))
        dataset = ray.data.from_items(list(made_up))
    begun = time.perf_counter()
    done = vectors(dataset, options.model, options.actors, threads).materialize()
    seconds = time.perf_counter() - begun
    if options.output:
        done.write_parquet(options.output)
    count = done.count()
    print(f"{count} texts, {options.actors} actors, {threads} threads each: {seconds:.2f} s, {count / seconds:.0f} texts/s")


if __name__ == "__main__":
    main()
