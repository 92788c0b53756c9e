"""The package `openai` on `/v1/responses`."""

import json

import jsonschema
import openai
import pytest
from conftest import PERSON, WEATHER
from pydantic import BaseModel

TOOLS = [{"type": "function", "name": "get_weather", "description": "The weather", "parameters": WEATHER, "strict": True}]


@pytest.fixture
def client(url):
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def respond(client, **fields):
    fields = {"model": "chat", "input": "Name three colours.", "temperature": 0, "max_output_tokens": 16} | fields
    return client.responses.create(**fields)


def test_a_response_has_every_field(client):
    answer = respond(client)
    assert answer.object == "response" and answer.id.startswith("resp_") and answer.model == "chat"
    assert answer.status == "incomplete" and answer.incomplete_details.reason == "max_output_tokens"
    [message] = answer.output
    assert message.type == "message" and message.role == "assistant" and message.id.startswith("msg_")
    assert message.content[0].type == "output_text" and answer.output_text == message.content[0].text != ""
    usage = answer.usage
    assert usage.output_tokens == 16 and usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert usage.input_tokens_details.cached_tokens >= 0 and usage.output_tokens_details.reasoning_tokens == 0


def test_a_response_says_what_chat_says(client):
    chat = client.chat.completions.create(
        model="chat",
        temperature=0,
        max_tokens=16,
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name three colours."}],
    )
    assert respond(client, instructions="Be brief.").output_text == chat.choices[0].message.content
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Name three colours."}]
    assert respond(client, input=messages).output_text == chat.choices[0].message.content


def test_the_events_of_a_stream(client):
    whole = respond(client)
    events = list(respond(client, stream=True))
    kinds = [event.type for event in events]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    assert events[-1].response.output_text == whole.output_text and events[-1].response.id == events[0].response.id
    assert events[-1].response.usage.output_tokens == whole.usage.output_tokens


def test_the_package_puts_a_stream_together(client):
    with client.responses.stream(model="chat", input="Name three colours.", max_output_tokens=8, temperature=0) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
    assert text == respond(client, max_output_tokens=8).output_text


def test_a_conversation_goes_on_from_a_response(client):
    first = respond(client)
    second = respond(client, input="And one more.", previous_response_id=first.id)
    assert second.previous_response_id == first.id and second.usage.input_tokens > first.usage.input_tokens
    by_hand = respond(
        client,
        input=[
            {"role": "user", "content": "Name three colours."},
            {"role": "assistant", "content": first.output_text},
            {"role": "user", "content": "And one more."},
        ],
    )
    assert by_hand.output_text == second.output_text
    items = [
        {"role": "user", "content": "Name three colours."},
        *[item.model_dump(exclude_none=True) for item in first.output],
        {"role": "user", "content": "And one more."},
    ]
    assert respond(client, input=items).output_text == second.output_text


def test_what_was_not_stored_cannot_be_gone_on_from(client):
    first = respond(client, store=False)
    for name in (first.id, "resp_never"):
        with pytest.raises(openai.APIStatusError) as error:
            respond(client, previous_response_id=name)
        assert error.value.status_code in (400, 404) and name in error.value.message


def test_a_response_can_be_fetched_and_deleted(client):
    first = respond(client)
    assert client.responses.retrieve(first.id).output_text == first.output_text
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)


def test_a_required_call_is_valid_and_its_result_can_be_sent(client):
    answer = respond(client, tools=TOOLS, tool_choice="required", max_output_tokens=128)
    calls = [item for item in answer.output if item.type == "function_call"]
    assert answer.status == "completed" and calls
    for call in calls:
        assert call.call_id and call.name == "get_weather"
        jsonschema.validate(json.loads(call.arguments), WEATHER)
    results = [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"} for call in calls]
    again = respond(client, input=results, previous_response_id=answer.id, tools=TOOLS)
    assert again.usage.input_tokens > answer.usage.input_tokens


def test_the_events_of_a_call(client):
    events = list(respond(client, tools=TOOLS, tool_choice="required", max_output_tokens=128, stream=True))
    done = [e for e in events if e.type == "response.function_call_arguments.done"]
    text = "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta" and e.output_index == 0)
    assert done and done[0].arguments == text
    assert events[-1].type == "response.completed" and events[-1].response.output[0].arguments == text


def test_a_strict_schema_holds(client):
    form = {"format": {"type": "json_schema", "name": "person", "strict": True, "schema": PERSON}}
    answer = respond(client, text=form, max_output_tokens=96, temperature=1.0)
    assert answer.status == "completed"
    jsonschema.validate(json.loads(answer.output_text), PERSON)


def test_pydantic_models_are_parsed(client):
    class Colour(BaseModel):
        red: bool

    answer = client.responses.parse(model="chat", input="Is it red?", text_format=Colour, max_output_tokens=64)
    assert isinstance(answer.output_parsed, Colour)


@pytest.mark.parametrize(
    ("grammar", "allowed"),
    [
        ({"syntax": "lark", "definition": 'start: "add " NUMBER\nNUMBER: /[0-9]{1,4}/'}, r"add [0-9]{1,4}"),
        ({"syntax": "regex", "definition": "(left|right) [1-9]"}, r"(left|right) [1-9]"),
    ],
)
def test_a_custom_tool_keeps_to_its_grammar(client, grammar, allowed):
    import re

    tool = {"type": "custom", "name": "steer", "description": "Steers", "format": {"type": "grammar", **grammar}}
    answer = respond(client, tools=[tool], tool_choice="required", max_output_tokens=64, temperature=1.0)
    [call] = [item for item in answer.output if item.type == "custom_tool_call"]
    assert call.name == "steer" and re.fullmatch(allowed, call.input)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"extra_body": {"never_heard_of": 1}}, "never_heard_of"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input"),
    ],
)
def test_what_is_wrong_is_named(client, fields, param):
    with pytest.raises(openai.BadRequestError) as error:
        respond(client, **fields)
    assert (error.value.param or "").startswith(param)
