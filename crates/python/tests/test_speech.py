"""Recordings: files, bytes, samples."""

import numpy as np
import pytest

import akunu
from conftest import FIXTURES

KENNEDY = FIXTURES / "audio/speech/jfk.flac"


def test_a_file_its_bytes_and_its_samples_say_the_same(speech_model):
    segments = []
    transcript = speech_model.transcribe(KENNEDY, on_segment=segments.append, words=True, beams=1)
    assert "ask not what your country can do for you" in transcript.text.lower()
    assert transcript.language == "en"
    assert [s.text for s in segments] == [s.text for s in transcript.segments]
    assert all(a.end <= b.start + 0.02 for s in segments for a, b in zip(s.words, s.words[1:]))
    assert "-->" in transcript.srt() and transcript.vtt(words=True).startswith("WEBVTT")
    assert speech_model.transcribe(KENNEDY.read_bytes(), beams=1).text == transcript.text


def test_samples_are_taken_as_they_are(speech_model):
    silence = np.zeros(16_000 * 2)
    assert speech_model.transcribe(silence).text == ""
    assert speech_model.transcribe([0.0] * 16_000).text == ""
    with pytest.raises(TypeError, match="one dimension"):
        speech_model.transcribe(np.zeros((2, 16_000)))


def test_what_a_callback_raises_comes_out(speech_model):
    def refuse(segment):
        raise KeyError(segment.text)

    with pytest.raises(KeyError):
        speech_model.transcribe(KENNEDY, on_segment=refuse, beams=1)
    assert speech_model.transcribe(KENNEDY, beams=1).text


def test_what_is_no_recording_is_an_error(speech_model, tmp_path):
    with pytest.raises(akunu.AudioError):
        speech_model.transcribe(tmp_path / "gone.wav")
    with pytest.raises(akunu.AudioError):
        speech_model.transcribe(b"no recording at all")
    with pytest.raises(akunu.AudioError, match="Klingon"):
        speech_model.transcribe(KENNEDY, language="Klingon")
