#!/usr/bin/env python3
"""Whether `--max-gap` is kept: `fairness.py AKUNU MODEL [MAX_GAP_MS] [PROMPTS] [TOKENS]`.

Starts the server with the model and streams four answers. Then prompts of 8192 (or TOKENS) tokens are read one after another, each a text
of its own, while the four go on. Prints the gaps between their tokens, as a client sees them and as `/metrics` counts them.
Ends with 1 where the client's 99th percentile is longer than was promised.
"""

import http.client
import json
import random
import subprocess
import sys
import threading
import time

akunu, model = sys.argv[1], sys.argv[2]
promise = float(sys.argv[3]) if len(sys.argv) > 3 else 200
prompts = int(sys.argv[4]) if len(sys.argv) > 4 else 3
length = int(sys.argv[5]) if len(sys.argv) > 5 else 8192
STREAMS, CONTEXT = 4, 2 * length

server = subprocess.Popen(
    [akunu, "serve", model, "--port", "0", "--print-address", "--log", "off", "--context", str(CONTEXT), "--max-gap", f"{promise:.0f}"],
    stdout=subprocess.PIPE,
    text=True,
)
host, port = server.stdout.readline().strip().removeprefix("http://").split(":")


def ask(path, body=None):
    """The connection and the answer to a request."""
    connection = http.client.HTTPConnection(host, int(port), timeout=3600)
    connection.request("POST" if body else "GET", path, json.dumps(body) if body else None)
    answer = connection.getresponse()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {answer.read(500).decode()}")
    return answer


def histogram():
    """The gaps so far by their bounds in ms, as `/metrics` has them."""
    counts = {}
    for line in ask("/metrics").read().decode().splitlines():
        if line.startswith("akunu_token_gap_seconds_bucket"):
            bound = line.split('le="')[1].split('"')[0]
            counts[float(bound) * 1e3] = int(line.rsplit(" ", 1)[1])
    return counts


arrivals = [[] for _ in range(STREAMS)]
done = threading.Event()


def stream(number):
    # As many tokens as there is room for: it is over when the prompts are read.
    body = {"prompt": "Once upon a time", "max_tokens": CONTEXT - 64, "ignore_eos": True, "stream": True, "temperature": 0.8, "seed": number}
    for line in ask("/v1/completions", body):
        if line.startswith(b"data: {"):
            arrivals[number].append(time.monotonic())
        if done.is_set():
            return


threads = [threading.Thread(target=stream, args=(n,), daemon=True) for n in range(STREAMS)]
for thread in threads:
    thread.start()
while min(map(len, arrivals)) < 20:
    if not all(thread.is_alive() for thread in threads):
        raise SystemExit("a stream could not be begun")
    time.sleep(0.05)

before, begun = histogram(), time.monotonic()
for number in range(prompts):
    # Tokens drawn by chance: nothing of them is in the cache.
    draw = random.Random(number)
    tokens = [draw.randrange(300, 1000) for _ in range(length)]
    since = time.monotonic()
    ask("/v1/completions", {"prompt": tokens, "max_tokens": 1}).read()
    print(f"prompt {number + 1} of {length} tokens read in {time.monotonic() - since:.1f} s")
ended, after = time.monotonic(), histogram()
done.set()

gaps = []
for times in arrivals:
    # Of those that began or ended meanwhile too.
    gaps += [(b - a) * 1e3 for a, b in zip(times, times[1:]) if b > begun and a < ended]
    if times[-1] < ended - 10 * promise / 1e3:
        raise SystemExit("a stream ended before the prompts were read: give fewer PROMPTS")
gaps.sort()


def percentile(share):
    return gaps[min(len(gaps) - 1, int(len(gaps) * share))]


def bound(share):
    """The least bound of `/metrics` under which so many gaps are."""
    total = after[float("inf")] - before[float("inf")]
    return next(le for le in sorted(after) if after[le] - before[le] >= share * total)


p99 = percentile(0.99)
print(f"promised {promise:.0f} ms; {len(gaps)} gaps of {STREAMS} streams in {ended - begun:.1f} s")
print(f"client:  p50 {percentile(0.5):.0f} ms, p99 {p99:.0f} ms, longest {gaps[-1]:.0f} ms")
print(f"metrics: p50 up to {bound(0.5):.0f} ms, p99 up to {bound(0.99):.0f} ms, longest up to {bound(1):.0f} ms")
server.terminate()
server.wait(60)
sys.exit(p99 > promise)
