#!/usr/bin/env python3
"""Many at once, and badly behaved ones among them: `load.py AKUNU [SECONDS] [CONNECTIONS]`.

Starts the server with the model inside the binary, keeps so many connections busy, and says what was answered, how fast,
and how the server's memory went. Then it sends what is no request, and asks whether the server still answers.
"""

import http.client
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

akunu = sys.argv[1]
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60
connections = int(sys.argv[3]) if len(sys.argv) > 3 else 200

server = subprocess.Popen(
    [akunu, "serve", "--port", "0", "--print-address", "--sequences", "32", "--queue", "128", "--log", "off"],
    stdout=subprocess.PIPE,
    text=True,
)
address = server.stdout.readline().strip().removeprefix("http://")
host, port = address.split(":")


def resident():
    """Megabytes of memory that the server has."""
    for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1e3
    return 0.0


statuses, faults, lock = Counter(), Counter(), threading.Lock()
firsts, gaps, tokens = [], [], 0
until = time.monotonic() + seconds


def worker(number):
    global tokens
    draw = random.Random(number)
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    while time.monotonic() < until:
        prompt = "Once upon a time there was a " + draw.choice(["cat", "dog", "girl", "boy", "tree", "king"]) * draw.randint(1, 20)
        body = json.dumps({"prompt": prompt, "max_tokens": draw.randint(8, 48), "temperature": 0.8, "stream": True})
        begun = time.monotonic()
        try:
            connection.request("POST", "/v1/completions", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            last, mine = None, []
            if answer.status == 200:
                for line in answer:
                    now = time.monotonic()
                    if line.startswith(b"data: {"):
                        mine.append(now - (last or begun))
                        last = now
            else:
                answer.read()
                time.sleep(0.05)
            with lock:
                statuses[answer.status] += 1
                tokens += len(mine)
                firsts.extend(mine[:1])
                gaps.extend(mine[1:])
        except Exception as fault:
            with lock:
                faults[type(fault).__name__] += 1
            connection.close()


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] * 1e3 if values else 0.0


threads = [threading.Thread(target=worker, args=(n,)) for n in range(connections)]
for thread in threads:
    thread.start()
memory = []
while time.monotonic() < until:
    time.sleep(1)
    memory.append(resident())
for thread in threads:
    thread.join()
settled = memory[len(memory) // 4 :]
print(f"{connections} connections, {seconds:.0f} s: {dict(statuses)}, faults {dict(faults)}")
print(f"{tokens / seconds:.0f} tokens/s; first token p50 {percentile(firsts, 0.5):.0f} ms, p99 {percentile(firsts, 0.99):.0f} ms")
print(f"gap p50 {percentile(gaps, 0.5):.1f} ms, p99 {percentile(gaps, 0.99):.1f} ms, longest {percentile(gaps, 1):.0f} ms")
print(f"memory {min(settled):.0f} to {max(settled):.0f} MB after the first quarter")

# What is no request.
draw = random.Random(7)
WORDS = [b"GET ", b"POST ", b"/v1/completions", b" HTTP/1.1\r\n", b"host: localhost\r\n", b"content-length: ", b"9" * 30, b"\r\n",
         b"\r\n\r\n", b"transfer-encoding: chunked\r\n", b"{", b'{"prompt":', b"[" * 200, b'"a"}', b"\x00\xff", b"ffffffffffffffff\r\n"]
sent, began = Counter(), time.monotonic()


def hostile(number):
    draw = random.Random(number)
    while time.monotonic() < began + seconds:
        kind = draw.choice(["words", "bytes", "half", "json"])
        try:
            with socket.create_connection((host, int(port)), timeout=5) as s:
                if kind == "words":
                    s.sendall(b"".join(draw.choice(WORDS) for _ in range(draw.randint(1, 12))))
                elif kind == "bytes":
                    s.sendall(draw.randbytes(draw.randint(1, 400)))
                elif kind == "half":
                    s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{")
                    s.shutdown(socket.SHUT_WR)
                else:
                    body = json.dumps(draw.choice([[], {"prompt": -1}, {"prompt": "x", "n": 10**9}, {"messages": [[]]}, {"input": {}}, "x"]))
                    path = draw.choice(["/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/api/chat", "/v1/messages", "/v1/responses"])
                    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
                    s.sendall(head.encode() + body.encode())
                s.settimeout(0.2)
                answer = s.recv(64)
                kind = answer[9:12].decode(errors="replace") if answer.startswith(b"HTTP") else "closed"
        except TimeoutError:
            kind = "waits"
        except OSError:
            kind = "reset"
        with lock:
            sent[kind] += 1


threads = [threading.Thread(target=hostile, args=(n,)) for n in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
connection = http.client.HTTPConnection(host, int(port), timeout=30)
connection.request("POST", "/v1/completions", json.dumps({"prompt": "Once", "max_tokens": 4}))
answer = connection.getresponse()
print(f"{sum(sent.values())} hostile: {dict(sent)}; then {answer.status}, {resident():.0f} MB")
server.terminate()
print(f"ended with {server.wait(60)}")
