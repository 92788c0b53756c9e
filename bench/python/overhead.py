#!/usr/bin/env python3
"""What Python costs over the command line of the same build: `overhead.py [MODEL] [--embedder MODEL] [--rounds N]`.

Streaming: microseconds a token of `akunu bench` (the Rust API without a scheduler) and of a loop over a reply; then the time
that the thread of this loop keeps a processor busy, where it waits for tokens and where all have come already. Embedding: two
processes, both of which load the model, embed the same texts and write an array: `akunu embed` and Python. Their times are
those of the clock, and of all processors together.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

EMBED = """
import sys
import numpy, akunu
model, texts, out, threads = sys.argv[1:]
model = akunu.Model(model or None, task="embed", threads=int(threads))
numpy.save(out, model.embed(open(texts).read().splitlines()))
"""


def command(*arguments):
    """What a process prints, the seconds it takes, and the seconds of processors."""

    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    begun, before = time.perf_counter(), used()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    return done.stdout, time.perf_counter() - begun, used() - before


def streaming(model, tokens, threads, rounds):
    import akunu

    name = model or "embedded"
    loaded = akunu.Model(model, threads=threads, cache=0)
    rust, python, busy, ready = [], [], [], []
    for round in range(rounds + 1):
        flags = ["-p", "0", "-g", str(tokens), "-t", str(threads), "--json"]
        speed = json.loads(command("-m", "akunu", "bench", name, *flags)[0])["decode"]["tokens_per_s"]
        seen, before = [], time.thread_time()
        for _ in loaded.generate([1, 2, 3, 4], max_tokens=tokens, ignore_eos=True):
            seen.append(time.perf_counter())
        if round:
            rust.append(1e6 / speed)
            python.append((seen[-1] - seen[0]) / (len(seen) - 1) * 1e6)
            busy.append((time.thread_time() - before) / len(seen) * 1e6)
            reply = loaded.generate([1, 2, 3, 4], max_tokens=tokens, ignore_eos=True)
            time.sleep(0.1)
            while loaded.load != (0, 0):
                time.sleep(0.01)
            before = time.thread_time()
            count = sum(1 for _ in reply)
            ready.append((time.thread_time() - before) / count * 1e6)
    rust, python, busy, ready = map(statistics.median, (rust, python, busy, ready))
    print(f"{name}, {tokens} tokens: Rust {rust:.1f} us, Python {python:.1f} us a token: {python - rust:+.1f} us")
    print(f"{name}: the thread that reads is busy for {busy:.1f} us a token, {ready:.2f} us where it has come already")


def embedding(model, count, threads, rounds):
    draw = random.Random(1)
    words = "once upon a time there was little dog who ran to the big red barn and did not look back".split()
    with tempfile.TemporaryDirectory() as folder:
        texts, a, b = (os.path.join(folder, name) for name in ("texts", "a.npy", "b.npy"))
        with open(texts, "w") as file:
            file.writelines(" ".join(draw.choices(words, k=draw.randint(4, 40))) + "\n" for _ in range(count))
        rust, python = [], []
        for _ in range(rounds):
            flags = ["--file", texts, "--format", "npy", "-o", a, "-t", str(threads)]
            rust.append(command("-m", "akunu", "embed", model or "embedded", *flags)[1:])
            python.append(command("-c", EMBED, model or "", texts, b, str(threads))[1:])
            assert open(a, "rb").read()[128:] == open(b, "rb").read()[128:], "the vectors differ"
    for what, at in (("clock", 0), ("processors", 1)):
        a, b = (statistics.median(times[at] for times in side) for side in (rust, python))
        print(f"{model or 'embedded'}, {count} texts, {what}: command line {a:.2f} s, numpy {b:.2f} s: {b / a:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--embedder", help="[default: the model inside the package]")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    streaming(options.model, options.tokens, options.threads, options.rounds)
    embedding(options.embedder, options.texts, options.threads, options.rounds)


if __name__ == "__main__":
    main()
