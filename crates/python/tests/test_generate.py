"""Texts: pieces, ends, sampling, grammars, chat."""

import json
import math
import threading

import pytest

import akunu
from akunu import Grammar
from conftest import TEMPLATE


def test_pieces_are_the_text_and_a_reply_knows_how_it_ended(model):
    reply = model.generate("Once upon a time", max_tokens=12)
    pieces = list(reply)
    assert [p.token for p in pieces] == reply.tokens
    assert "".join(map(str, pieces)) == reply.text == str(reply)
    assert reply.finish_reason == "length"
    timings = reply.timings
    assert timings.generated_tokens == 12 == len(reply.tokens)
    assert 0 < timings.first_token <= timings.total and timings.tokens_per_second > 0
    assert "finish_reason='length'" in repr(reply)


def test_text_and_tokens_are_the_same_prompt(model):
    tokens = model.tokenize("Once upon a time")
    assert model.detokenize(tokens, skip_special=True).strip() == "Once upon a time"
    by_text = model.generate("Once upon a time", max_tokens=8).text
    assert model.generate(tokens, max_tokens=8).text == by_text
    assert model.generate(tuple(tokens), max_tokens=8).text == by_text


def test_a_seed_draws_the_same_and_another_one_another_text(model):
    def told(seed):
        return model.generate("The dog", max_tokens=24, temperature=1.5, seed=seed).text

    assert told(1) == told(1)
    assert len({told(seed) for seed in range(5)}) > 1


def test_a_stop_string_ends_the_text_before_it(model):
    whole = model.generate("Once upon a time", max_tokens=40).text
    stop = whole[20:24]
    for given in (stop, [stop, "never there"]):
        reply = model.generate("Once upon a time", max_tokens=40, stop=given)
        assert reply.text == whole[: whole.index(stop)]
        assert (reply.finish_reason, reply.stopped_by) == ("stop", stop)


def test_log_probabilities_come_with_tokens(model):
    pieces = list(model.generate("Once upon a time", max_tokens=4, logprobs=3))
    for piece in pieces:
        assert piece.logprob <= 0 and len(piece.top_logprobs) == 3
        # Greedy: the likeliest was chosen.
        assert piece.top_logprobs[0][0] == piece.token
        assert math.isclose(piece.top_logprobs[0][1], piece.logprob, rel_tol=1e-5)


@pytest.mark.parametrize(
    "grammar",
    [
        Grammar.regex(" (happy|sad)\\."),
        Grammar.gbnf('root ::= " " ("happy" | "sad") "."'),
        Grammar.lark('start: " " ("happy" | "sad") "."'),
    ],
)
def test_a_grammar_is_kept(model, grammar):
    assert model.generate("The cat was", max_tokens=20, grammar=grammar).text in (" happy.", " sad.")


def test_json_keeps_to_a_schema(model):
    schema = {
        "type": "object",
        "properties": {"name": {"enum": ["Tom", "Lily"]}, "old": {"type": "boolean"}},
        "required": ["name", "old"],
        "additionalProperties": False,
    }
    for form in (schema, json.dumps(schema)):
        text = model.generate("Who?", max_tokens=60, grammar=Grammar.json_schema(form)).text
        assert json.loads(text)["name"] in ("Tom", "Lily")


def test_messages_go_through_the_template(model):
    question = "Tell me of the dog."
    reply = model.chat([{"role": "user", "content": question}], max_tokens=6, temperature=0)
    assert model.detokenize(reply._stream.prompt_tokens).strip() == f"user: {question}\nassistant:"
    assert model.chat(question, max_tokens=6, temperature=0).text == reply.text


def test_a_forced_call_has_the_form_of_its_schema(model):
    tool = {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
                "required": ["city"],
            },
        },
    }
    for choice in ("required", "weather", {"type": "function", "function": {"name": "weather"}}):
        reply = model.chat("Is it raining?", tools=[tool], tool_choice=choice, max_tokens=80, temperature=0)
        kinds = [piece.kind for piece in reply if piece.text]
        assert reply.finish_reason == "tool_calls" and kinds[0] == "call" and "arguments" in kinds
        (call,) = reply.tool_calls
        assert call.name == "weather" and json.loads(call.arguments)["city"] in ("Paris", "Rome")


def test_threads_share_one_model_and_each_gets_its_own_text(model):
    prompts = ["Once upon a time", "The dog", "A bird", "Tom and Lily"]
    alone = [model.generate(prompt, max_tokens=16).text for prompt in prompts]
    together = [None] * len(prompts)

    def run(at):
        together[at] = model.generate(prompts[at], max_tokens=16).text

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(prompts))]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert together == alone


def test_a_conversation_computes_only_what_is_new_and_goes_on_from_a_file(model, tmp_path):
    session = akunu.Session(model, [{"role": "system", "content": "You tell stories. " * 20}])
    first = session.chat("Tell one.", max_tokens=20, temperature=0).wait()
    assert [m["role"] for m in session.messages] == ["system", "user", "assistant"]
    second = session.chat("Another.", max_tokens=4, temperature=0)
    assert second.timings.cached_tokens >= first.timings.prompt_tokens
    path = tmp_path / "conversation"
    session.save(path)
    with akunu.Model(threads=2, chat_template=TEMPLATE) as other:
        restored = akunu.Session.load(other, path)
        assert restored.messages == session.messages
        third = restored.chat("More.", max_tokens=4, temperature=0)
        # The other model has read nothing.
        assert third.timings.cached_tokens >= second.timings.prompt_tokens
        assert third.text == session.chat("More.", max_tokens=4, temperature=0).text


def test_what_there_is_can_be_asked_for_without_loading(model):
    about = akunu.about()
    assert (about.purpose, about.architecture) == ("generate", "llama")
    small, large = akunu.estimate(context=64), akunu.estimate(context=512)
    assert small.weights == large.weights and small.kv < large.kv
    assert small.total == small.weights + small.kv + small.scratch
    devices = {device.name: device for device in akunu.devices()}
    assert devices["cpu"].unavailable is None and devices["cpu"].level
    assert devices["metal"].unavailable
    assert model.load == (0, 0) and model.context == 512
