#!/usr/bin/env python3
"""Stands between a coding agent and a server, and keeps the shapes of the agent's requests.

    python3 record.py http://127.0.0.1:8080 codex.jsonl      # prints its own address

Long texts (prompts, descriptions) are other people's work: of each only its length is kept. Requests of one shape are kept once.
"""

import http.client
import http.server
import json
import re
import sys
from urllib.parse import urlsplit

UPSTREAM, KEPT = urlsplit(sys.argv[1]), sys.argv[2]
LONGEST = 48
# Of the moment: identifiers, tokens, dates.
MOMENT = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])(?!https?:)\S{20,}|.*[0-9]{10,}.*")
HEADERS = re.compile(r"^(anthropic-|openai-|x-|session|conversation|originator|user-agent|accept$)", re.I)
seen = set()


def shape(value, name=""):
    """A value without what is of the moment or somebody's text."""
    if isinstance(value, dict):
        return {key: shape(v, key) for key, v in value.items()}
    if isinstance(value, list):
        return [shape(v, name) for v in value]
    if isinstance(value, str) and (len(value) > LONGEST or value.count(" ") > 1):
        return f"<{len(value)} characters>"
    if isinstance(value, str) and MOMENT.fullmatch(value):
        return f"<{name}>"
    return value


class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def relay(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        connection = http.client.HTTPConnection(UPSTREAM.hostname, UPSTREAM.port, timeout=600)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "accept-encoding")}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        self.keep(body, answer.status)
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection", "date"):
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        # The answer, as it comes; the first bytes of a refusal are shown.
        while piece := answer.read1(65536):
            if answer.status >= 400:
                print(answer.status, self.path, piece[:600].decode(errors="replace"), file=sys.stderr, flush=True)
            self.wfile.write(piece)
            self.wfile.flush()

    do_GET = do_POST = do_HEAD = do_DELETE = relay

    def keep(self, body, status):
        try:
            fields = shape(json.loads(body)) if body else None
        except ValueError:
            fields = f"<{len(body)} bytes>"
        headers = {k.lower(): shape(v, k) for k, v in self.headers.items() if HEADERS.match(k)}
        line = {"method": self.command, "path": self.path, "headers": headers, "body": fields}
        # Conversations that only became longer have one shape.
        key = json.dumps(sorted(fields) if isinstance(fields, dict) else fields) + self.path
        print(self.command, self.path, len(body), status, file=sys.stderr, flush=True)
        if key not in seen:
            seen.add(key)
            with open(KEPT, "a", encoding="utf-8") as out:
                out.write(json.dumps(line, ensure_ascii=False) + "\n")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
