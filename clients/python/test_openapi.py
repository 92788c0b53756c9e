"""`/openapi.json` is so: schemathesis makes requests from it, right and wrong ones, and each answer must be one that it names.

It has a server of its own, with one model for each purpose, so that requests reach a model whatever they call it, and short answers.
"""

import atexit
import os
import subprocess

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# Requests for each operation: more for a longer look.
EXAMPLES = int(os.environ.get("AKUNU_EXAMPLES", "40"))

others = [model for model in os.environ["AKUNU_MODELS"].split("\n") if model.startswith(("rank=", "speech="))]
flags = ["--port", "0", "--print-address", "--max-answer", "4"]
server = subprocess.Popen(
    [os.environ["AKUNU_BINARY"], "serve", "embedded", *others, *flags],
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
    text=True,
)
atexit.register(server.kill)
schema = schemathesis.openapi.from_url(server.stdout.readline().strip() + "/openapi.json")


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_operation(case):
    case.call_and_validate(checks=CHECKS, timeout=60)
    assert server.poll() is None, "the server ended"
