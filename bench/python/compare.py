#!/usr/bin/env python3
"""Tokens a second through Python, side by side: `compare.py MODEL.gguf [--peers akunu,xllamacpp,llama_cpp]`.

Two tables: one reply streamed to a loop, and many replies at once. Peers take turns, round by round; the median counts.
What is not installed is left out, and said so. Every peer generates greedily, exactly so many tokens.
"""

import argparse
import importlib.util
import json
import statistics
import threading
import time

PROMPT = "Once upon a time there was a"


class Akunu:
    """This package."""

    def __init__(self, path, threads, parallel, context):
        import akunu

        self.model = akunu.Model(path, threads=threads, parallel=parallel, context=context, cache=0)

    def stream(self, tokens):
        return sum(1 for _ in self.model.generate(PROMPT, max_tokens=tokens, ignore_eos=True))

    def batch(self, count, tokens):
        replies = [self.model.generate(f"{PROMPT} {i}", max_tokens=tokens, ignore_eos=True) for i in range(count)]
        return sum(len(reply.tokens) for reply in replies)


class LlamaCpp:
    """llama-cpp-python, whose high-level API decodes one text at a time."""

    def __init__(self, path, threads, parallel, context):
        import llama_cpp

        self.model = llama_cpp.Llama(
            str(path), n_ctx=context, n_threads=threads, n_threads_batch=threads, verbose=False
        )
        self.bias = {self.model.token_eos(): -1e9}

    def stream(self, tokens):
        options = {"max_tokens": tokens, "temperature": 0.0, "logit_bias": self.bias, "stream": True}
        return sum(1 for _ in self.model.create_completion(PROMPT, **options))

    def batch(self, count, tokens):
        return sum(self.stream(tokens) for _ in range(count))


class XLlamaCpp:
    """xllamacpp: llama.cpp's server inside the process."""

    def __init__(self, path, threads, parallel, context):
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx = context * parallel
        params.n_parallel = parallel
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.warmup = True
        self.server = xllamacpp.Server(params)

    def request(self, prompt, tokens, stream):
        return {"prompt": prompt, "n_predict": tokens, "max_tokens": tokens, "temperature": 0.0, "ignore_eos": True,
                "stream": stream, "cache_prompt": False}  # fmt: skip

    def stream(self, tokens):
        seen = []
        self.server.handle_completions(self.request(PROMPT, tokens, True), seen.append)
        # A piece a token; the last ones say how it ended.
        return tokens if len(seen) >= tokens // 2 else 0

    def batch(self, count, tokens):
        done = [0] * count

        def run(at):
            answer = self.server.handle_completions(self.request(f"{PROMPT} {at}", tokens, False))
            answer = json.loads(answer) if isinstance(answer, (str, bytes)) else answer
            done[at] = answer["usage"]["completion_tokens"]

        threads = [threading.Thread(target=run, args=(at,)) for at in range(count)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        return sum(done)


PEERS = {"akunu": Akunu, "xllamacpp": XLlamaCpp, "llama_cpp": LlamaCpp}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=512)
    options = parser.parse_args()
    peers = {}
    for name in options.peers.split(","):
        if importlib.util.find_spec(name) is None:
            print(f"left out: {name} is not installed")
        else:
            peers[name] = PEERS[name](options.model, options.threads, options.batch, options.context)
    modes = {
        f"stream, {options.tokens} tokens": lambda peer: peer.stream(options.tokens),
        f"{options.batch} at once, {options.tokens} tokens each": lambda peer: peer.batch(options.batch, options.tokens),
    }
    print("| tokens/s | " + " | ".join(peers) + " |\n|---" * 1 + "|---" * len(peers) + "|")
    for mode, run in modes.items():
        speeds = {name: [] for name in peers}
        for round in range(options.rounds + 1):
            for name, peer in peers.items():
                begun = time.perf_counter()
                tokens = run(peer)
                # The first round warms up.
                if round:
                    speeds[name].append(tokens / (time.perf_counter() - begun))
        print(f"| {mode} | " + " | ".join(f"{statistics.median(speeds[name]):.0f}" for name in peers) + " |")


if __name__ == "__main__":
    main()
