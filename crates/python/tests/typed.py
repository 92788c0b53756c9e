"""A program of a user who checks types strictly: mypy and pyright read it, nobody runs it."""

import asyncio
from typing import Dict, List

import numpy as np
from numpy.typing import NDArray

import akunu


def sync() -> str:
    model = akunu.Model("model.gguf", context=4096, threads=2, kv="q8_0", parallel=4)
    for piece in model.generate("Once", max_tokens=8, temperature=0.8, stop=["\n"], seed=1):
        print(piece.text, piece.kind, piece.logprob)
    messages: List[Dict[str, str]] = [{"role": "user", "content": "Hello"}]
    reply = model.chat(messages, grammar=akunu.Grammar.json(), think=False)
    calls: List[akunu.ToolCall] = reply.tool_calls
    timings = reply.timings
    assert timings is not None
    return reply.text + str(len(calls)) + str(timings.tokens_per_second)


async def many(model: akunu.Model) -> List[str]:
    replies = await asyncio.gather(*(model.generate(text, max_tokens=8) for text in ("a", "b")))
    async for piece in model.generate("c"):
        print(piece.text)
    return [reply.text for reply in replies]


def read(model: akunu.Model) -> NDArray[np.float32]:
    best: akunu.Ranked = model.rerank("query", ["a", "b"], top=1)[0]
    print(best.index, best.score, best.text)
    transcript: akunu.Transcript = model.transcribe("talk.wav", language="en", words=True)
    segments: List[akunu.Segment] = transcript.segments
    print(segments[0].words[0].probability)
    session = akunu.Session.load(model, "session")
    session.chat("And then?", max_tokens=8).wait()
    return model.embed(["a", "b"], normalize=False)


def wrong(model: akunu.Model) -> None:
    # A checker must refuse these: an ignore that is not needed is an error too.
    model.generate("a", warmth=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    model.generate("a", max_tokens="many")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    model.embed(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
