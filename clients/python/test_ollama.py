"""The package `ollama` on `/api`."""

import json

import jsonschema
import ollama
import pytest
from conftest import PERSON, WEATHER

ASK = [{"role": "user", "content": "Name three colours."}]
OPTIONS = {"temperature": 0, "num_predict": 16, "seed": 7}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather", "parameters": WEATHER}}]


@pytest.fixture
def client(url):
    return ollama.Client(host=url)


def counted(answer):
    assert answer.done and answer.created_at and answer.model.startswith("chat")
    assert answer.eval_count == 16 and answer.prompt_eval_count > 0
    # Nanoseconds.
    assert answer.total_duration >= answer.eval_duration > 0 and answer.total_duration > 1_000_000


def test_a_chat(client):
    answer = client.chat(model="chat", messages=ASK, options=OPTIONS)
    counted(answer)
    assert answer.message.role == "assistant" and answer.message.content and answer.done_reason == "length"
    parts = list(client.chat(model="chat", messages=ASK, options=OPTIONS, stream=True))
    assert "".join(part.message.content for part in parts) == answer.message.content
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    counted(parts[-1])


def test_it_says_what_the_other_api_says(client, url):
    import openai

    chat = openai.OpenAI(base_url=f"{url}/v1", api_key="none").chat.completions.create(
        model="chat", messages=ASK, temperature=0, max_tokens=16
    )
    assert client.chat(model="chat", messages=ASK, options=OPTIONS).message.content == chat.choices[0].message.content


def test_generate_uses_the_template_unless_it_is_raw(client):
    answer = client.generate(model="chat", prompt="Name three colours.", options=OPTIONS)
    counted(answer)
    assert answer.response == client.chat(model="chat", messages=ASK, options=OPTIONS).message.content
    raw = client.generate(model="chat", prompt="Name three colours.", options=OPTIONS, raw=True)
    assert raw.prompt_eval_count < answer.prompt_eval_count
    parts = list(client.generate(model="chat", prompt="Name three colours.", options=OPTIONS, stream=True))
    assert "".join(part.response for part in parts) == answer.response
    counted(parts[-1])


def test_generate_with_a_system_prompt(client):
    messages = [{"role": "system", "content": "Be brief."}, *ASK]
    chat = client.chat(model="chat", messages=messages, options=OPTIONS).message.content
    answer = client.generate(model="chat", prompt="Name three colours.", system="Be brief.", options=OPTIONS)
    assert answer.response == chat


def test_a_model_may_be_loaded_by_asking_nothing(client):
    answer = client.generate(model="chat", prompt="")
    assert answer.done and answer.done_reason == "load" and answer.response == ""


def test_a_stop_string_is_not_said(client):
    whole = client.chat(model="chat", messages=ASK, options=OPTIONS).message.content
    word = whole.split()[3]
    answer = client.chat(model="chat", messages=ASK, options=OPTIONS | {"stop": [word]})
    assert answer.message.content == whole[: whole.index(word)] and answer.done_reason == "stop"


@pytest.mark.parametrize("form", ["json", PERSON])
def test_a_form_holds(client, form):
    options = {"temperature": 1.0, "seed": 3, "num_predict": 128}
    answer = client.chat(model="chat", messages=ASK, format=form, options=options)
    if form != "json":
        assert answer.done_reason == "stop"
        jsonschema.validate(json.loads(answer.message.content), PERSON)
    else:
        assert answer.message.content.lstrip().startswith("{")


def test_tools_are_taken_and_results_may_be_sent_back(client):
    answer = client.chat(model="chat", messages=ASK, tools=TOOLS, options=OPTIONS)
    for call in answer.message.tool_calls or []:
        jsonschema.validate(call.function.arguments, WEATHER)
    call = {"function": {"name": "get_weather", "arguments": {"city": "Oslo", "unit": "celsius"}}}
    messages = [*ASK, {"role": "assistant", "content": "", "tool_calls": [call]}]
    messages += [{"role": "tool", "content": "rain", "tool_name": "get_weather"}]
    again = client.chat(model="chat", messages=messages, tools=TOOLS, options=OPTIONS)
    assert again.prompt_eval_count > answer.prompt_eval_count


def test_models_are_listed_shown_and_running(client):
    names = [model.model for model in client.list().models]
    assert any(name.split(":")[0] == "chat" for name in names)
    assert all(model.size > 0 and model.digest and model.modified_at for model in client.list().models)
    shown = client.show("chat")
    assert shown.details.family == "llama" and shown.details.parameter_size and "completion" in shown.capabilities
    assert shown.modelinfo["general.architecture"] == "llama" and shown.modelinfo["llama.context_length"] == 8192
    client.chat(model="chat", messages=ASK, options=OPTIONS)
    assert any(model.model.split(":")[0] == "chat" and model.size > 0 for model in client.ps().models)


def test_a_tag_is_part_of_a_name(client):
    assert client.chat(model="chat:latest", messages=ASK, options=OPTIONS).message.content


def test_embeddings(client):
    answer = client.embed(model="embed", input=["a cat", "a dog"])
    assert len(answer.embeddings) == 2 and all(len(v) == 384 for v in answer.embeddings)
    assert sum(x * x for x in answer.embeddings[0]) == pytest.approx(1, abs=1e-3)
    assert answer.prompt_eval_count > 2
    assert len(client.embed(model="embed", input="a cat", dimensions=64).embeddings[0]) == 64
    assert len(client.embeddings(model="embed", prompt="a cat").embedding) == 384


def test_a_version(client, url):
    import urllib.request

    assert json.load(urllib.request.urlopen(f"{url}/api/version"))["version"]
    # Programs look at the root to see whether it is there.
    assert urllib.request.urlopen(url).status == 200


@pytest.mark.parametrize(
    ("fields", "status", "word"),
    [
        ({"model": "nobody-here"}, 404, "nobody-here"),
        ({"model": "embed"}, 400, "embed"),
        ({"options": {"temperature": -1}}, 400, "temperature"),
        ({"options": {"num_predict": 4, "never_heard_of": 1}}, 400, "never_heard_of"),
        ({"messages": [{"role": "user", "content": "What?", "images": [b"\x89PNG"]}]}, 400, "image"),
        ({"messages": [{"role": "user", "content": "again and again " * 5000}]}, 400, "token"),
    ],
)
def test_what_is_wrong_is_named(client, fields, status, word):
    for stream in (False, True):
        with pytest.raises(ollama.ResponseError) as error:
            answer = client.chat(**({"model": "chat", "messages": ASK, "stream": stream} | fields))
            list(answer)
        assert error.value.status_code == status and word in error.value.error


async def test_a_client_that_leaves_frees_its_place(url, freed):
    stream = await ollama.AsyncClient(host=url).chat(model="chat", messages=ASK, stream=True, options={"num_predict": 4000})
    await anext(stream)
    await stream.aclose()
