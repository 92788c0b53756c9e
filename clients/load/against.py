#!/usr/bin/env python3
"""The same requests to two servers, in turns: `against.py AKUNU LLAMA_SERVER MODEL [ROUNDS] [CLIENTS]`.

Both run for the whole time, and one of them works at a time. In a round every client sends some prompts one after another, of
30 to 1000 tokens that no prompt before began with, and reads 96 tokens of each answer as a stream. Then the same prompts go to the
other. The numbers are of all rounds together, with the ratio of each round behind them.
"""

import http.client
import json
import random
import subprocess
import sys
import threading
import time
import urllib.request

akunu, llama, model = sys.argv[1:4]
rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
clients = int(sys.argv[5]) if len(sys.argv) > 5 else 8
REQUESTS, TOKENS, THREADS = 3, 96, "2"
WORDS = "the of and a to in is you that it he was for on are as with his they at be this have from or one had by word but not".split()


def start(name, command, port):
    log = open(f"/tmp/against-{name}.log", "w")
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
            return process
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{name} did not start: see {log.name}")


def prompts(seed):
    draw = random.Random(seed)
    lengths = [draw.choice([30, 60, 120, 250, 500, 1000]) for _ in range(REQUESTS)]
    return [f"{draw.random():.6f} " + " ".join(draw.choice(WORDS) for _ in range(length)) for length in lengths]


class Server:
    def __init__(self, name, port):
        self.name, self.port, self.rates = name, port, []
        self.firsts, self.gaps, self.lock = [], [], threading.Lock()

    def client(self, seed, tokens):
        for prompt in prompts(seed):
            # llama.cpp's ends a connection with the stream.
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
            body = {"prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True, "stream": True}
            last, times = time.monotonic(), []
            connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            for line in answer:
                if line.startswith(b"data: {") and json.loads(line[6:])["choices"][0]["text"] != "":
                    now = time.monotonic()
                    times.append(now - last)
                    last = now
            with self.lock:
                # A token of half a character comes with the next one: what was asked for is what was written.
                tokens.append(TOKENS)
                self.firsts.append(times[0])
                self.gaps.extend(times[1:])

    def round(self, number):
        tokens, began = [], time.monotonic()
        threads = [threading.Thread(target=self.client, args=(number * 1000 + n, tokens)) for n in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(tokens) == clients * REQUESTS, "a client failed"
        self.rates.append(sum(tokens) / (time.monotonic() - began))


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1e3


context = 2048
ours, theirs = Server("akunu", 18080), Server("llama.cpp", 18081)
processes = [
    start("akunu", [akunu, "serve", model, "--port", "18080", "--sequences", str(clients), "--threads", THREADS, "--log", "off"], 18080),
    start("llama.cpp", [llama, "-m", model, "--port", "18081", "-np", str(clients), "-c", str(context * clients), "-t", THREADS], 18081),
]
try:
    for server in (ours, theirs):
        server.round(0)
        server.rates, server.firsts, server.gaps = [], [], []
    for number in range(1, rounds + 1):
        for server in (ours, theirs) if number % 2 else (theirs, ours):
            server.round(number)
finally:
    for process in processes:
        process.terminate()

print(f"{clients} clients, {rounds} rounds of {clients * REQUESTS} requests, prompts of 30 to 1000 tokens, {TOKENS} tokens each")
print("| server | tokens/s | first token p50 ms | p99 ms | gap p50 ms | p99 ms | longest ms |\n|---|---|---|---|---|---|---|")
for s in (ours, theirs):
    rate = sum(s.rates) / len(s.rates)
    numbers = [percentile(v, share) for v, share in ((s.firsts, 0.5), (s.firsts, 0.99), (s.gaps, 0.5), (s.gaps, 0.99), (s.gaps, 1))]
    print(f"| {s.name} | {rate:.0f} | " + " | ".join(f"{n:.1f}" if n < 100 else f"{n:.0f}" for n in numbers) + " |")
ratios = [a / b for a, b in zip(ours.rates, theirs.rates)]
print("tokens/s, ratio of each round:", ", ".join(f"{r:.2f}" for r in ratios))
