"""The package `anthropic` on `/v1/messages`."""

import anthropic
import jsonschema
import pytest
from conftest import PERSON, WEATHER

ASK = [{"role": "user", "content": "Name three colours."}]
TOOLS = [
    {"name": "get_weather", "description": "The weather", "input_schema": WEATHER},
    {"name": "add_person", "description": "Adds somebody", "input_schema": PERSON},
]
SCHEMAS = {"get_weather": WEATHER, "add_person": PERSON}


@pytest.fixture
def client(url):
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)


def ask(client, temperature=0, **fields):
    # Newer packages have no parameter for it; the API does.
    extra = {"temperature": temperature} | fields.pop("extra_body", {})
    return client.messages.create(**({"model": "chat", "messages": ASK, "max_tokens": 16} | fields), extra_body=extra)


def test_a_message_has_every_field(client):
    answer = ask(client)
    assert answer.type == "message" and answer.role == "assistant" and answer.id.startswith("msg_")
    assert answer.model == "chat" and answer.stop_reason == "max_tokens" and answer.stop_sequence is None
    [block] = answer.content
    assert block.type == "text" and block.text
    assert answer.usage.output_tokens == 16
    assert answer.usage.cache_read_input_tokens >= 0 and answer.usage.cache_creation_input_tokens >= 0


def whole_prompt(usage):
    """Anthropic counts what was found in the cache apart."""
    return usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)


def test_tokens_are_counted_as_they_are_used(client):
    for fields in ({}, {"system": "Be brief."}, {"tools": TOOLS}):
        counted = client.messages.count_tokens(model="chat", messages=ASK, **fields).input_tokens
        assert counted == whole_prompt(ask(client, max_tokens=1, **fields).usage)


def test_it_says_what_the_other_api_says(client, url):
    import openai

    chat = openai.OpenAI(base_url=f"{url}/v1", api_key="none").chat.completions.create(
        model="chat", messages=[{"role": "system", "content": "Be brief."}, *ASK], temperature=0, max_tokens=16
    )
    assert ask(client, system="Be brief.").content[0].text == chat.choices[0].message.content
    parts = ask(client, system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])
    assert parts.content[0].text == chat.choices[0].message.content


def test_the_events_of_a_stream(client):
    whole = ask(client)
    events = list(ask(client, stream=True))
    kinds = [event.type for event in events if event.type != "ping"]
    assert kinds[:3] == ["message_start", "content_block_start", "content_block_delta"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert events[0].message.content == [] and events[0].message.stop_reason is None
    text = "".join(e.delta.text for e in events if e.type == "content_block_delta")
    assert text == whole.content[0].text
    delta = next(e for e in events if e.type == "message_delta")
    assert delta.delta.stop_reason == "max_tokens" and delta.usage.output_tokens == 16


def test_the_package_puts_a_stream_together(client):
    with client.messages.stream(
        model="chat", messages=ASK, max_tokens=16, extra_body={"temperature": 0}
    ) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == final.content[0].text == ask(client).content[0].text
    assert final.usage.output_tokens == 16


def test_a_stop_sequence_is_named_and_not_said(client):
    whole = ask(client, max_tokens=24).content[0].text
    word = whole.split()[3]
    answer = ask(client, max_tokens=24, stop_sequences=["never said", word])
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", word)
    assert answer.content[0].text == whole[: whole.index(word)]


def test_the_last_message_may_be_the_beginning_of_the_answer(client):
    answer = ask(client, messages=[*ASK, {"role": "assistant", "content": "The three colours are"}])
    assert answer.content[0].text and not answer.content[0].text.startswith("The three colours are")


def checked(answer):
    calls = [block for block in answer.content if block.type == "tool_use"]
    for call in calls:
        assert call.id
        jsonschema.validate(call.input, SCHEMAS[call.name])
    return calls


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({"type": "any"}, {"get_weather", "add_person"}),
        ({"type": "tool", "name": "add_person"}, {"add_person"}),
        ({"type": "any", "disable_parallel_tool_use": True}, {"get_weather", "add_person"}),
    ],
)
def test_a_required_call_is_valid(client, choice, names):
    answer = ask(client, tools=TOOLS, tool_choice=choice, max_tokens=128, temperature=1.0)
    calls = checked(answer)
    assert answer.stop_reason == "tool_use" and calls and {call.name for call in calls} <= names
    if "disable_parallel_tool_use" in choice:
        assert len(calls) == 1


def test_a_call_in_a_stream_is_the_same_call(client):
    fields = {"model": "chat", "messages": ASK, "tools": TOOLS, "tool_choice": {"type": "any"}, "max_tokens": 128}
    whole = ask(client, **fields)
    with client.messages.stream(extra_body={"temperature": 0}, **fields) as stream:
        events = list(stream)
        final = stream.get_final_message()
    assert [(c.name, c.input) for c in checked(final)] == [(c.name, c.input) for c in checked(whole)]
    assert final.stop_reason == "tool_use"
    assert any(e.type == "content_block_delta" and e.delta.type == "input_json_delta" for e in events)


def test_calls_and_results_may_be_sent_back(client):
    weather = {"city": "Oslo", "unit": "celsius"}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "rain"}]}
    messages = [
        {"role": "user", "content": "How is the weather in Oslo?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": weather}]},
        {"role": "user", "content": [result, {"type": "text", "text": "Go on."}]},
    ]
    assert ask(client, messages=messages, tools=TOOLS).content
    result["is_error"] = True
    assert ask(client, messages=messages, tools=TOOLS).content


def test_no_call_where_there_may_be_none(client):
    assert not checked(ask(client, tools=TOOLS, tool_choice={"type": "none"}))


def test_thinking_blocks_of_before_are_taken(client):
    thought = {"type": "thinking", "thinking": "They want colours.", "signature": "none"}
    messages = [*ASK, {"role": "assistant", "content": [thought, {"type": "text", "text": "Red."}]}, *ASK]
    assert ask(client, messages=messages).content


def test_several_turns_of_one_role(client):
    assert ask(client, messages=[*ASK, *ASK]).content


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"temperature": -1}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "role"),
        ({"extra_body": {"never_heard_of": 1}}, "never_heard_of"),
        ({"tools": TOOLS, "tool_choice": {"type": "tool", "name": "nobody"}}, "nobody"),
        ({"messages": [{"role": "user", "content": "again and again " * 5000}]}, "token"),
    ],
)
def test_what_is_wrong_is_named(client, fields, field):
    with pytest.raises(anthropic.BadRequestError) as error:
        ask(client, **fields)
    body = error.value.body
    assert body["type"] == "error" and body["error"]["type"] == "invalid_request_error"
    assert field in body["error"]["message"]


def test_an_image_is_refused(client):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    with pytest.raises(anthropic.BadRequestError) as error:
        ask(client, messages=[{"role": "user", "content": [image, {"type": "text", "text": "What?"}]}])
    assert "image" in error.value.body["error"]["message"]


def test_a_key_is_needed_where_there_is_one(keyed):
    fields = {"model": "any", "messages": ASK, "max_tokens": 2}
    with pytest.raises(anthropic.AuthenticationError) as error:
        anthropic.Anthropic(base_url=keyed, api_key="wrong", max_retries=0).messages.create(**fields)
    assert error.value.body["error"]["type"] == "authentication_error"
    for right in ({"api_key": "sk-right"}, {"auth_token": "sk-right"}):
        assert anthropic.Anthropic(base_url=keyed, max_retries=0, **right).messages.create(**fields).type == "message"


def test_models_are_listed_in_its_form(client):
    models = client.models.list(limit=20)
    assert {"chat"} <= {model.id for model in models} and all(model.type == "model" for model in models)
    assert client.models.retrieve("chat").display_name


async def test_a_client_that_leaves_frees_its_place(url, freed):
    client = anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0)
    async with client.messages.stream(model="chat", messages=ASK, max_tokens=4000) as stream:
        async for event in stream:
            if event.type == "content_block_delta":
                break
