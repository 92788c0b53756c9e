"""Makes llama.cpp's tests of its server run against ours, and takes out what only its own models can answer.

- Each server gets a port that is free.
- Names of headers have no case, as HTTP says.
- The flags `--temp`, `--seed` and `--verbose` are defaults of requests: they are put into those that have none. stories260K never ends a story,
  so others are not let to.
- Models are not downloaded; `server.py` chooses others.
- Where the texts or token counts of a particular model are expected, any text and any count will do. All else is compared as it
  stands.
"""

import socket

import openai
import utils
from requests.structures import CaseInsensitiveDict

# What stories260K says under llama.cpp's random numbers.
WORDS = {
    "But she couldn't",
    '(Suddenly)+|\\{ " Sarax.',
    "^ blue",
    "(Aside|she|felter|alonger)+",
    "Whillicter",
    "(Suddenly)+",
    "(going|bed)+",
    "(princesses|everyone|kids|Anna|forest)+",
}


class AnyCount(int):
    """Equal to every count."""

    def __eq__(self, other):
        return isinstance(other, int) and not isinstance(other, bool) and other > 0

    def __ne__(self, other):
        return not self == other

    __hash__ = int.__hash__


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pytest_itemcollected(item):
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if "n_prompt" in parameters:
        parameters["n_prompt"] = AnyCount(parameters["n_prompt"])


_match_regex = utils.match_regex
_start = utils.ServerProcess.start
_make_request = utils.ServerProcess.make_request
_make_stream_request = utils.ServerProcess.make_stream_request
_complete = openai.resources.Completions.create


def _match(regex, text):
    if regex in WORDS:
        return isinstance(text, str) and text != ""
    return _match_regex(regex, text)


def _start_on_a_free_port(server, *arguments, **named):
    server.server_port = _free_port()
    return _start(server, *arguments, **named)


def _with_defaults(server, path, data):
    if not isinstance(data, dict) or not path.endswith(("/completion", "/completions")):
        return data
    defaults = {"temperature": server.temperature, "seed": server.seed}
    if server.debug and path.endswith("/chat/completions"):
        defaults["verbose"] = True
    if path == "/completion":
        defaults["ignore_eos"] = True
    return defaults | data


def _request(server, method, path, data=None, *rest, **named):
    response = _make_request(server, method, path, _with_defaults(server, path, data), *rest, **named)
    response.headers = CaseInsensitiveDict(response.headers)
    return response


def _stream(server, method, path, data=None, *rest, **named):
    return _make_stream_request(server, method, path, _with_defaults(server, path, data), *rest, **named)


def _complete_to_the_length(completions, **named):
    return _complete(completions, **named, extra_body={"ignore_eos": True})


utils.match_regex = _match
utils.ServerProcess.make_request = _request
openai.resources.Completions.create = _complete_to_the_length
utils.ServerProcess.make_stream_request = _stream
utils.ServerProcess.start = _start_on_a_free_port
utils.ServerPreset.load_all = staticmethod(lambda: None)
