"""The examples for Ray, on a Ray of this machine."""

import json
import socket
import sys
import urllib.error
import urllib.request

import pytest

ray = pytest.importorskip("ray", reason="there is no ray: pip install 'ray[data,serve]'")
pytest.importorskip("pyarrow", reason="there is no ray[data]: pip install 'ray[data,serve]'")

import akunu
from conftest import FIXTURES, ROOT, downloaded

EXAMPLES = ROOT / "examples/ray"
sys.path.insert(0, str(EXAMPLES))


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=3, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": str(EXAMPLES)}})
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def test_vectors_of_a_dataset_are_those_of_one_process(embedder):
    import embed

    texts = [f"Story {i} about {'a dog ' * (i % 5)}." for i in range(40)]
    dataset = ray.data.from_items([{"text": text} for text in texts])
    rows = embed.vectors(dataset, actors=2, threads=1, batch_size=8).take_all()
    assert sorted(row["text"] for row in rows) == sorted(texts)
    for row in rows[:5]:
        assert abs(float(row["vector"] @ embedder.embed(row["text"])) - 1) < 1e-3


def test_questions_of_a_dataset_are_answered(model):
    import chat

    asked = [{"question": f"A dog and {i} friends"} for i in range(12)]
    rows = chat.answers(ray.data.from_items(asked), actors=2, threads=1, batch_size=4, max_tokens=8).take_all()
    assert {row["question"] for row in rows} == {a["question"] for a in asked}
    assert all(row["answer"] and 0 < row["tokens"] <= 8 for row in rows)


def test_a_folder_of_recordings_is_transcribed():
    import transcribe

    name = downloaded("whisper-tiny")
    (row,) = transcribe.transcripts(str(FIXTURES / "audio/speech/jfk.flac"), name, threads=1, beams=1).take_all()
    assert "ask not" in row["text"].lower() and row["language"] == "en"


def test_a_deployment_streams_and_refuses():
    from ray import serve

    import deploy

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve.start(http_options={"port": port})
    serve.run(deploy.app, name="stories")
    try:
        body = json.dumps({"prompt": "Once upon a time", "max_tokens": 12}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", data=body, timeout=60) as response:
            lines = [json.loads(line) for line in response]
        assert lines[-1] == {"finish_reason": "length", "tokens": 12} and len(lines) > 4
        assert "".join(line["text"] for line in lines[:-1]) == akunu.Model().generate("Once upon a time", max_tokens=12).text
        wrong = urllib.request.Request(f"http://127.0.0.1:{port}/", data=b'{"prompt": "a", "warmth": 1}')
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(wrong, timeout=60)
        assert refused.value.code == 400 and "warmth" in refused.value.read().decode()
    finally:
        serve.shutdown()
