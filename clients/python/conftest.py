"""The server that all clients talk to: `cargo xtask clients` starts it and names it in the environment.

Models: `chat` (SmolLM2 135M Instruct), `embed` (all-MiniLM-L6-v2), `speech` (Whisper tiny), `rank` (made by
`ranker.py`) and `story` (inside the binary). Nothing here asks whether a model is wise: protocol, shapes, sums and what must be equal.
"""

import os
import re
import subprocess
import time
import urllib.request

import pytest

URL = os.environ["AKUNU_URL"]
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    },
    "required": ["city", "unit"],
    "additionalProperties": False,
}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "friend": {"type": "boolean"},
    },
    "required": ["name", "age", "friend"],
    "additionalProperties": False,
}


@pytest.fixture(scope="session")
def url():
    return URL


@pytest.fixture(scope="session")
def speech():
    """Eleven seconds of a president."""
    return os.path.join(os.environ["AKUNU_FIXTURES"], "audio/speech/jfk.flac")


@pytest.fixture(scope="session")
def keyed():
    """A second server, with the model that is inside the binary, which wants a key."""
    server = subprocess.Popen(
        [os.environ["AKUNU_BINARY"], "serve", "embedded", "--port", "0", "--print-address", "--api-key", "sk-right"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait(30)


def _gauge(name, model="chat"):
    """A figure of `/metrics`."""
    text = urllib.request.urlopen(f"{URL}/metrics").read().decode()
    found = re.search(rf'^akunu_{name}\{{model="{model}"\}} (\S+)$', text, re.M)
    return float(found[1]) if found else 0.0


@pytest.fixture
def freed():
    """A client that leaves in the middle of an answer frees its place: asked after the test."""
    before = _gauge("requests_cancelled_total")
    yield
    end = time.monotonic() + 10
    while _gauge("requests_running") > 0 or _gauge("requests_cancelled_total") == before:
        assert time.monotonic() < end, "the request was not cancelled"
        time.sleep(0.05)
