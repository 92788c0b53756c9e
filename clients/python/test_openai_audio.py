"""The package `openai` on `/v1/audio`."""

import json

import openai
import pytest


@pytest.fixture
def client(url):
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def transcribe(client, speech, **fields):
    with open(speech, "rb") as file:
        return client.audio.transcriptions.create(model="speech", file=file, temperature=0, **fields)


def test_a_transcription_in_every_form(client, speech):
    text = transcribe(client, speech).text
    assert "country" in text.lower()
    assert transcribe(client, speech, response_format="text").strip() == text.strip()
    srt = transcribe(client, speech, response_format="srt")
    assert srt.startswith("1\n00:00:0") and " --> " in srt
    vtt = transcribe(client, speech, response_format="vtt")
    assert vtt.startswith("WEBVTT\n")


def test_segments_and_words_have_times(client, speech):
    answer = transcribe(
        client, speech, response_format="verbose_json", timestamp_granularities=["word", "segment"], language="en"
    )
    assert 10.5 < answer.duration < 11.5 and answer.language.lower() in ("en", "english")
    assert answer.text.strip() == "".join(s.text for s in answer.segments).strip()
    for before, after in zip(answer.words, answer.words[1:]):
        assert 0 <= before.start <= before.end <= after.end <= 11.5
    assert [w.word.strip() for w in answer.words] == answer.text.split()


def test_a_translation(client, speech):
    with open(speech, "rb") as file:
        assert client.audio.translations.create(model="speech", file=file).text


def test_a_stream_of_a_transcription(client, speech):
    events = list(transcribe(client, speech, stream=True))
    assert events[-1].type == "transcript.text.done"
    assert "".join(e.delta for e in events if e.type == "transcript.text.delta").strip() == events[-1].text.strip()


def test_what_is_wrong_is_named(client, speech):
    with pytest.raises(openai.BadRequestError) as error:
        client.audio.transcriptions.create(model="speech", file=("noise.wav", b"this is no sound"))
    assert error.value.type == "invalid_request_error"
    with pytest.raises(openai.BadRequestError) as error:
        transcribe(client, speech, response_format="smell")
    assert error.value.param == "response_format"
    with pytest.raises(openai.BadRequestError) as error:
        transcribe(client, speech, language="klingonese")
    assert error.value.param == "language"


def test_a_chat_model_does_not_hear(client, speech):
    with open(speech, "rb") as file, pytest.raises(openai.BadRequestError) as error:
        client.audio.transcriptions.create(model="chat", file=file)
    assert error.value.param == "model" and json.dumps(error.value.body)
