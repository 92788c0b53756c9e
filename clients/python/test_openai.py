"""The package `openai` on `/v1/chat/completions`, `/v1/completions`, `/v1/embeddings` and `/v1/models`."""

import asyncio
import base64
import json
import math
import struct

import jsonschema
import openai
import pytest
from conftest import PERSON, WEATHER
from openai.types.chat import ChatCompletion
from pydantic import BaseModel

ASK = [{"role": "user", "content": "Name three colours."}]
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "add_person", "description": "Adds somebody", "parameters": PERSON}},
]
SCHEMAS = {"get_weather": WEATHER, "add_person": PERSON}


@pytest.fixture
def client(url):
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


@pytest.fixture
def later(url):
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def chat(client, **fields):
    fields = {"model": "chat", "messages": ASK, "temperature": 0, "seed": 7, "max_tokens": 16} | fields
    return client.chat.completions.create(**fields)


def joined(chunks):
    """What the chunks of one choice say together."""
    content, reasons, calls, logprobs, usage, roles, ids = "", [], {}, [], None, [], set()
    for chunk in chunks:
        ids.add(chunk.id)
        assert chunk.object == "chat.completion.chunk"
        usage = chunk.usage or usage
        for choice in chunk.choices:
            content += choice.delta.content or ""
            roles += [choice.delta.role] if choice.delta.role else []
            reasons += [choice.finish_reason] if choice.finish_reason else []
            logprobs += choice.logprobs.content if choice.logprobs else []
            for call in choice.delta.tool_calls or []:
                if call.index not in calls:
                    assert call.id and call.function.name and call.type == "function"
                    calls[call.index] = [call.id, call.function.name, ""]
                calls[call.index][2] += call.function.arguments or ""
    assert len(ids) == 1 and roles == ["assistant"] and len(reasons) == 1
    return content, reasons[0], [calls[i] for i in sorted(calls)], logprobs, usage


# Models


def test_models_are_listed_and_found(client):
    names = [model.id for model in client.models.list()]
    assert {"chat", "embed", "speech"} <= set(names)
    assert client.models.retrieve("chat").id == "chat"
    with pytest.raises(openai.NotFoundError) as error:
        client.models.retrieve("nobody")
    assert "nobody" in error.value.message


# Chat


def test_an_answer_has_every_field(client):
    answer = chat(client)
    assert isinstance(answer, ChatCompletion) and answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-") and answer.created > 1_700_000_000 and answer.model == "chat"
    [choice] = answer.choices
    assert choice.index == 0 and choice.message.role == "assistant" and choice.message.content
    assert choice.finish_reason == "length" and choice.logprobs is None and not choice.message.tool_calls
    usage = answer.usage
    assert usage.completion_tokens == 16 and usage.prompt_tokens > 10
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert 0 <= usage.prompt_tokens_details.cached_tokens < usage.prompt_tokens


def test_the_second_of_two_equal_requests_finds_its_prompt_in_the_cache(client):
    messages = [{"role": "user", "content": "Tell me something about the long history of lighthouses. " * 6}]
    first = chat(client, messages=messages, max_tokens=2)
    second = chat(client, messages=messages, max_tokens=2)
    assert second.choices[0].message.content == first.choices[0].message.content
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens // 2


def test_a_stream_says_what_an_answer_says(client):
    whole = chat(client)
    content, reason, calls, _, usage = joined(chat(client, stream=True, stream_options={"include_usage": True}))
    assert (content, reason, calls) == (whole.choices[0].message.content, whole.choices[0].finish_reason, [])
    assert usage.model_dump(exclude={"prompt_tokens_details"}) == whole.usage.model_dump(
        exclude={"prompt_tokens_details"}
    )


def test_a_stream_has_no_usage_unless_asked(client):
    chunks = list(chat(client, stream=True, max_tokens=2))
    assert all(chunk.usage is None for chunk in chunks) and all(chunk.choices for chunk in chunks)


def test_a_raw_stream_is_events_and_ends_with_done(client):
    with client.chat.completions.with_streaming_response.create(
        model="chat", messages=ASK, max_tokens=3, stream=True
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line]
    assert all(line.startswith("data: ") for line in lines if not line.startswith(":"))
    assert lines[-1] == "data: [DONE]"
    assert [json.loads(line[6:]) for line in lines[:-1] if not line.startswith(":")]


def test_a_seed_makes_draws_the_same(client):
    one, two = (chat(client, temperature=1.2, seed=11).choices[0].message.content for _ in range(2))
    other = [chat(client, temperature=1.2, seed=seed).choices[0].message.content for seed in range(4)]
    assert one == two and len(set(other)) > 1


def test_several_choices(client):
    answer = chat(client, n=3, temperature=1.5, max_tokens=12, extra_body={"ignore_eos": True})
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in answer.choices}) > 1
    assert answer.usage.completion_tokens == 36


def test_several_choices_in_a_stream_say_the_same(client):
    whole = chat(client, n=2, temperature=1.0, max_tokens=8)
    texts = {0: "", 1: ""}
    for chunk in chat(client, n=2, temperature=1.0, max_tokens=8, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert [texts[0], texts[1]] == [choice.message.content for choice in whole.choices]


@pytest.mark.parametrize("as_list", [False, True])
def test_a_stop_string_is_not_part_of_the_answer(client, as_list):
    whole = chat(client, max_tokens=24).choices[0].message.content
    word = whole.split()[3]
    answer = chat(client, max_tokens=24, stop=[word, "never said"] if as_list else word)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content == whole[: whole.index(word)]
    content, reason, *_ = joined(chat(client, max_tokens=24, stop=word, stream=True))
    assert (content, reason) == (whole[: whole.index(word)], "stop")


def test_max_completion_tokens_is_the_newer_name(client):
    answer = client.chat.completions.create(model="chat", messages=ASK, max_completion_tokens=3)
    assert answer.usage.completion_tokens <= 3


def test_logprobs(client):
    choice = chat(client, logprobs=True, top_logprobs=4).choices[0]
    tokens = choice.logprobs.content
    assert len(tokens) == 16 and b"".join(bytes(t.bytes) for t in tokens).decode() == choice.message.content
    for token in tokens:
        assert token.logprob <= 0 and len(token.top_logprobs) == 4
        likely = [t.logprob for t in token.top_logprobs]
        assert likely == sorted(likely, reverse=True)
        assert sum(math.exp(p) for p in likely) <= 1.001
        # At temperature 0 the likeliest is chosen.
        assert token.token == token.top_logprobs[0].token and math.isclose(token.logprob, likely[0], abs_tol=1e-4)
    *_, streamed, _ = joined(chat(client, logprobs=True, top_logprobs=4, stream=True))
    assert [t.token for t in streamed] == [t.token for t in tokens]
    assert [t.logprob for t in streamed] == pytest.approx([t.logprob for t in tokens], abs=1e-4)


def test_logit_bias_bans_a_token(client, url):
    first = chat(client, logprobs=True, max_tokens=1).choices[0].logprobs.content[0].token
    post = client.post("/../tokenize", body={"model": "chat", "content": first}, cast_to=object)
    [token] = post["tokens"]
    other = chat(client, logprobs=True, max_tokens=1, logit_bias={str(token): -100}).choices[0].logprobs.content[0]
    assert other.token != first


def test_penalties_change_the_answer(client):
    ask = [{"role": "user", "content": "Say the word yes twenty times."}]
    plain = chat(client, messages=ask, max_tokens=32).choices[0].message.content
    other = chat(client, messages=ask, max_tokens=32, frequency_penalty=2.0, presence_penalty=2.0)
    assert other.choices[0].message.content != plain


def test_parts_and_the_developer_role(client):
    text = chat(client, messages=[{"role": "system", "content": "Be brief."}, *ASK])
    parts = chat(
        client,
        messages=[
            {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]},
            {"role": "user", "content": [{"type": "text", "text": ASK[0]["content"]}]},
        ],
    )
    assert parts.choices[0].message.content == text.choices[0].message.content


# Forms


def test_json_object(client):
    answer = chat(client, response_format={"type": "json_object"}, max_tokens=96, temperature=0.3)
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict)
    assert answer.choices[0].message.content.lstrip().startswith("{")


@pytest.mark.parametrize("seed", range(3))
def test_a_strict_schema_holds(client, seed):
    form = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}
    answer = chat(client, response_format=form, max_tokens=96, temperature=1.0, seed=seed)
    assert answer.choices[0].finish_reason == "stop"
    jsonschema.validate(json.loads(answer.choices[0].message.content), PERSON)


def test_pydantic_models_are_parsed(client):
    class Colour(BaseModel):
        red: bool
        names: tuple[bool, bool]

    answer = client.chat.completions.parse(
        model="chat", messages=ASK, response_format=Colour, max_tokens=64, temperature=0
    )
    assert isinstance(answer.choices[0].message.parsed, Colour)
    with client.chat.completions.stream(
        model="chat", messages=ASK, response_format=Colour, max_tokens=64, temperature=0
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed == answer.choices[0].message.parsed and "content.done" in kinds


def test_a_schema_that_is_none_is_refused(client):
    form = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"type": "hiccup"}}}
    with pytest.raises(openai.BadRequestError) as error:
        chat(client, response_format=form)
    assert "hiccup" in error.value.message


# Tools


def checked(calls):
    for call in calls:
        assert call.id and call.type == "function"
        jsonschema.validate(json.loads(call.function.arguments), SCHEMAS[call.function.name])
    return calls


def test_a_required_call_is_valid(client):
    choice = chat(client, tools=TOOLS, tool_choice="required", max_tokens=128).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert len(checked(choice.message.tool_calls)) >= 1 and not choice.message.content


@pytest.mark.parametrize("name", ["get_weather", "add_person"])
def test_a_named_call_is_that_call(client, name):
    named = {"type": "function", "function": {"name": name}}
    choice = chat(client, tools=TOOLS, tool_choice=named, max_tokens=128, temperature=1.0).choices[0]
    assert {call.function.name for call in checked(choice.message.tool_calls)} == {name}
    # OpenAI's own server says "stop" where the call was named; others say "tool_calls".
    assert choice.finish_reason in ("stop", "tool_calls")


def test_a_call_in_a_stream_is_the_same_call(client):
    whole = chat(client, tools=TOOLS, tool_choice="required", max_tokens=128)
    content, reason, calls, *_ = joined(chat(client, tools=TOOLS, tool_choice="required", max_tokens=128, stream=True))
    expected = [(c.function.name, c.function.arguments) for c in whole.choices[0].message.tool_calls]
    assert [(name, arguments) for _, name, arguments in calls] == expected
    assert reason == "tool_calls" and not content and len({i for i, *_ in calls}) == len(calls)


def test_one_call_only_where_they_may_not_be_parallel(client):
    fields = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 128}
    for seed in range(3):
        choice = chat(client, temperature=1.0, seed=seed, **fields).choices[0]
        assert len(checked(choice.message.tool_calls)) == 1


def test_no_call_where_there_may_be_none(client):
    choice = chat(client, tools=TOOLS, tool_choice="none").choices[0]
    assert not choice.message.tool_calls and choice.message.content


def test_calls_and_results_may_be_sent_back(client):
    call = {"name": "get_weather", "arguments": '{"city": "Oslo", "unit": "celsius"}'}
    messages = [
        {"role": "user", "content": "How is the weather in Oslo?"},
        {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
    ]
    answer = chat(client, messages=messages, tools=TOOLS)
    without = chat(client, messages=messages[:1], tools=TOOLS)
    assert answer.usage.prompt_tokens > without.usage.prompt_tokens


def test_a_call_to_nobody_is_refused(client):
    with pytest.raises(openai.BadRequestError) as error:
        chat(client, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "nobody"}})
    assert "nobody" in error.value.message and "tool_choice" in (error.value.param or "")


# Errors


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"n": 0}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logit_bias": {"1": 1000}}, "logit_bias"),
        ({"stop": ["x"] * 100}, "stop"),
        ({"response_format": {"type": "sound"}}, "response_format"),
        ({"extra_body": {"never_heard_of": 1}}, "never_heard_of"),
        ({"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}, None),
    ],
)
def test_what_is_wrong_is_named(client, fields, param):
    with pytest.raises(openai.BadRequestError) as error:
        chat(client, **fields)
    assert error.value.type == "invalid_request_error" and error.value.message
    if param:
        assert (error.value.param or "").startswith(param)


def test_an_image_is_refused_by_name(client):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    with pytest.raises(openai.BadRequestError) as error:
        chat(client, messages=[{"role": "user", "content": [{"type": "text", "text": "What?"}, image]}])
    assert "content[1]" in error.value.param


def test_a_prompt_that_is_too_long_says_the_numbers(client):
    with pytest.raises(openai.BadRequestError) as error:
        chat(client, messages=[{"role": "user", "content": "again and again " * 5000}])
    assert error.value.code == "context_length_exceeded"
    assert any(int(n) > 8000 for n in "".join(c if c.isdigit() else " " for c in error.value.message).split())


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_is_not_here_or_for_something_else(client, stream):
    with pytest.raises(openai.NotFoundError) as error:
        chat(client, model="nobody-here", stream=stream)
    assert error.value.param == "model" and error.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as error:
        chat(client, model="embed", stream=stream)
    assert error.value.param == "model"


def test_a_key_is_needed_where_there_is_one(keyed):
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{keyed}/v1", api_key="wrong", max_retries=0).models.list()
    assert openai.OpenAI(base_url=f"{keyed}/v1", api_key="sk-right", max_retries=0).models.list().data


def test_a_path_that_is_not_there(client):
    with pytest.raises(openai.NotFoundError):
        client.images.generate(prompt="a cat")


# Many at once, and those that leave


def test_a_client_that_leaves_frees_its_place(client, freed):
    stream = chat(client, stream=True, max_tokens=4000, extra_body={"ignore_eos": True})
    next(chunk for chunk in stream if chunk.choices[0].delta.content)
    stream.close()


async def test_a_task_that_is_cancelled_frees_its_place(later, freed):
    task = asyncio.create_task(chat(later, max_tokens=4000, extra_body={"ignore_eos": True}))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_many_at_once_say_what_each_says_alone(later):
    asks = [[{"role": "user", "content": f"Tell me about the number {i}."}] for i in range(6)]
    alone = [(await chat(later, messages=ask)).choices[0].message.content for ask in asks]
    together = await asyncio.gather(*[chat(later, messages=ask) for ask in asks])
    assert [answer.choices[0].message.content for answer in together] == alone


# Completions


def complete(client, **fields):
    fields = {"model": "chat", "prompt": "Once upon a time", "temperature": 0, "max_tokens": 12} | fields
    return client.completions.create(**fields)


def test_a_completion(client):
    answer = complete(client)
    assert answer.object == "text_completion" and answer.id.startswith("cmpl-")
    assert answer.choices[0].finish_reason == "length" and answer.choices[0].text
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 12
    streamed = list(complete(client, stream=True))
    assert "".join(c.choices[0].text for c in streamed) == answer.choices[0].text
    assert streamed[-1].choices[0].finish_reason == "length"


def test_completions_of_several_prompts_and_of_tokens(client):
    prompts = ["Once upon a time", "The sea is"]
    together = complete(client, prompt=prompts)
    assert [c.text for c in together.choices] == [complete(client, prompt=p).choices[0].text for p in prompts]
    tokens = client.post("/../tokenize", body={"model": "chat", "content": prompts[0]}, cast_to=object)["tokens"]
    assert complete(client, prompt=tokens).choices[0].text == together.choices[0].text


def test_a_completion_with_echo_and_logprobs(client):
    answer = complete(client, logprobs=2).choices[0]
    assert "".join(answer.logprobs.tokens) == answer.text and len(answer.logprobs.token_logprobs) == 12
    assert all(len(top) == 2 for top in answer.logprobs.top_logprobs)
    assert complete(client, echo=True).choices[0].text == "Once upon a time" + answer.text


def test_what_completions_do_not_do_is_named(client):
    for field in ({"best_of": 3}, {"suffix": "the end"}):
        with pytest.raises(openai.BadRequestError) as error:
            complete(client, **field)
        assert error.value.param in field


# Embeddings


def test_embeddings_are_unit_vectors_whatever_their_form(client):
    texts = ["a cat", "a dog", "the stock market fell"]
    answer = client.embeddings.create(model="embed", input=texts, encoding_format="float")
    vectors = [item.embedding for item in answer.data]
    assert [item.index for item in answer.data] == [0, 1, 2] and all(len(v) == 384 for v in vectors)
    assert all(math.isclose(sum(x * x for x in v), 1, abs_tol=1e-3) for v in vectors)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 3
    raw = client.embeddings.with_raw_response.create(model="embed", input=texts[0], encoding_format="base64")
    data = json.loads(raw.text)["data"][0]["embedding"]
    assert struct.unpack("<384f", base64.b64decode(data)) == pytest.approx(vectors[0], abs=1e-6)
    # Left out, the package asks for base64 and decodes it.
    assert client.embeddings.create(model="embed", input=texts[1]).data[0].embedding == pytest.approx(vectors[1])


def test_an_embedding_may_be_shorter(client):
    whole = client.embeddings.create(model="embed", input="a cat").data[0].embedding
    short = client.embeddings.create(model="embed", input="a cat", dimensions=64).data[0].embedding
    norm = math.sqrt(sum(x * x for x in whole[:64]))
    assert short == pytest.approx([x / norm for x in whole[:64]], abs=1e-4)


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"input": []}, "input"), ({"dimensions": 0}, "dimensions"), ({"dimensions": 10000}, "dimensions")],
)
def test_what_embeddings_cannot_be(client, fields, param):
    with pytest.raises(openai.BadRequestError) as error:
        client.embeddings.create(**({"model": "embed", "input": "x"} | fields))
    assert error.value.param == param
