"""The package `litellm`, which speaks several dialects, and maps errors to its own."""

import json

import jsonschema
import litellm
import pytest
from conftest import PERSON, WEATHER

litellm.telemetry = False
litellm.num_retries = 0
ASK = [{"role": "user", "content": "Name three colours."}]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather", "parameters": WEATHER}}]

PROVIDERS = {
    "openai/chat": "/v1",
    "hosted_vllm/chat": "/v1",
    "llamafile/chat": "/v1",
    "anthropic/chat": "",
    "ollama_chat/chat": "",
    "ollama/chat": "",
}


@pytest.fixture(params=PROVIDERS)
def provider(request, url):
    base = url + PROVIDERS[request.param]
    return {"model": request.param, "api_base": base, "api_key": "none", "max_tokens": 12, "temperature": 0}


def test_a_stream_says_what_an_answer_says(provider):
    whole = litellm.completion(messages=ASK, **provider)
    assert whole.choices[0].message.content
    # Its older provider for Ollama says "stop" whatever comes.
    assert whole.choices[0].finish_reason == ("stop" if provider["model"] == "ollama/chat" else "length")
    assert whole.usage.completion_tokens == 12
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    chunks = list(litellm.completion(messages=ASK, stream=True, **provider))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == whole.choices[0].message.content
    assert litellm.stream_chunk_builder(chunks).choices[0].finish_reason == whole.choices[0].finish_reason


async def test_it_can_be_awaited(provider):
    whole = litellm.completion(messages=ASK, **provider)
    assert (await litellm.acompletion(messages=ASK, **provider)).choices[0].message.content == whole.choices[
        0
    ].message.content


def test_a_schema_holds(provider):
    form = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}
    answer = litellm.completion(messages=ASK, response_format=form, **(provider | {"max_tokens": 128}))
    jsonschema.validate(json.loads(answer.choices[0].message.content), PERSON)


def test_a_named_call_is_valid(provider):
    if provider["model"].startswith("ollama"):
        pytest.skip("Ollama's API has no tool_choice")
    choice = {"type": "function", "function": {"name": "get_weather"}}
    answer = litellm.completion(messages=ASK, tools=TOOLS, tool_choice=choice, **(provider | {"max_tokens": 128}))
    [call] = answer.choices[0].message.tool_calls
    jsonschema.validate(json.loads(call.function.arguments), WEATHER)
    assert answer.choices[0].finish_reason in ("tool_calls", "stop")


def test_a_model_that_is_not_here(url):
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(model="ollama_chat/nobody-here", api_base=url, messages=ASK)


def test_a_prompt_that_is_too_long_is_known_as_such(url):
    with pytest.raises(litellm.ContextWindowExceededError):
        messages = [{"role": "user", "content": "again and again " * 5000}]
        litellm.completion(model="openai/chat", api_base=f"{url}/v1", api_key="none", messages=messages)


def test_a_bad_request_is_one(url):
    with pytest.raises(litellm.BadRequestError) as error:
        litellm.completion(model="openai/chat", api_base=f"{url}/v1", api_key="none", messages=ASK, temperature=-1)
    assert "temperature" in str(error.value)


def test_a_wrong_key_is_one(keyed):
    with pytest.raises(litellm.AuthenticationError):
        litellm.completion(model="openai/any", api_base=f"{keyed}/v1", api_key="wrong", messages=ASK)


@pytest.mark.parametrize("provider", ["openai/embed", "hosted_vllm/embed", "ollama/embed"], indirect=False)
def test_embeddings(provider, url):
    base = url if provider.startswith("ollama") else f"{url}/v1"
    answer = litellm.embedding(model=provider, api_base=base, api_key="none", input=["a cat", "a dog"])
    assert [len(item["embedding"]) for item in answer.data] == [384, 384]


def test_a_text_completion(url):
    answer = litellm.text_completion(
        model="text-completion-openai/chat", api_base=f"{url}/v1", api_key="none", prompt="Once upon", max_tokens=4
    )
    assert answer.choices[0].text and answer.usage.completion_tokens == 4


def test_reranking(url):
    texts = ["A cat sleeps.", "The stock market fell.", "A kitten plays."]
    answer = litellm.rerank(
        model="hosted_vllm/rank", api_base=url, api_key="none", query="small cats", documents=texts, top_n=2
    )
    scores = [r["relevance_score"] for r in answer.results]
    assert len(scores) == 2 and scores == sorted(scores, reverse=True)
    assert len({r["index"] for r in answer.results}) == 2


def test_a_transcription(url, speech):
    with open(speech, "rb") as file:
        answer = litellm.transcription(model="openai/speech", api_base=f"{url}/v1", api_key="none", file=file)
    assert "country" in answer.text.lower()


def test_the_responses_api(url):
    answer = litellm.responses(
        model="openai/chat", api_base=f"{url}/v1", api_key="none", input="Name a colour.", max_output_tokens=8
    )
    assert answer.output[0].content[0].text
