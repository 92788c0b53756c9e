#!/usr/bin/env python3
"""What serving costs: `overhead.py AKUNU [MODEL] [STREAMS] [TOKENS] [ROUNDS]`.

The engine alone (`akunu bench --streams`) and the server over sockets, in turns: so many answers at once, of the same length, with
nothing to read but a word. The server's time is from the last first token to the first last one, when all streams run. The clients
run on the same processor; what the server itself spends outside of the engine's threads is the second number.
"""

import http.client
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

akunu = sys.argv[1]
model = [m for m in sys.argv[2:3] if m != "embedded"]
streams = int(sys.argv[3]) if len(sys.argv) > 3 else 8
tokens = int(sys.argv[4]) if len(sys.argv) > 4 else 128
rounds = int(sys.argv[5]) if len(sys.argv) > 5 else 5


def alone():
    command = [akunu, "bench", *(model or ["embedded"]), "--streams", str(streams), "-p", "0", "-g", str(tokens), "-r", "1", "--json"]
    return json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)["tokens_per_s"]


def processor_time():
    """Ticks of the server's threads that speak HTTP, and of all."""
    ticks = {"http": 0, "all": 0}
    for stat in Path(f"/proc/{server.pid}/task").glob("*/stat"):
        text = stat.read_text()
        name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        spent = int(fields[11]) + int(fields[12])
        ticks["all"] += spent
        ticks["http"] += spent if "http" in name else 0
    return ticks


def served(address):
    times, lock = [], threading.Lock()

    def stream(number):
        connection = http.client.HTTPConnection(address, timeout=600)
        body = {"prompt": "Once", "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
        arrived = []
        for line in connection.getresponse():
            if line.startswith(b"data: {"):
                arrived.append(time.monotonic())
        with lock:
            times.append(arrived)

    threads = [threading.Thread(target=stream, args=(n,)) for n in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    began, ended = max(t[0] for t in times), min(t[-2] for t in times)
    return sum(sum(began < at <= ended for at in t) for t in times) / (ended - began)


command = [akunu, "serve", *model, "--port", "0", "--print-address", "--sequences", str(streams), "--log", "off"]
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
address = server.stdout.readline().strip().removeprefix("http://")
served(address)
before, ratios = processor_time(), []
for _ in range(rounds):
    engine, server_rate = alone(), served(address)
    ratios.append(server_rate / engine)
    print(f"{streams} streams: the engine alone {engine:.0f} tokens/s, served {server_rate:.0f}: {ratios[-1]:.3f}")
after = processor_time()
share = (after["http"] - before["http"]) / (after["all"] - before["all"])
print(f"median {sorted(ratios)[len(ratios) // 2]:.3f}; {100 * share:.1f} % of the server's processor time is HTTP's")
server.terminate()
