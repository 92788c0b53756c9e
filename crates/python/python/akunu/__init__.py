"""Run language models, embeddings and Whisper locally.

>>> import akunu
>>> model = akunu.Model()                     # the model inside the package; or Model("model.gguf")
>>> for piece in model.generate("Once upon a time", max_tokens=8):
...     print(piece, end="")
, there was a little girl named Lily

A model file writes, embeds, ranks or transcribes; `Model` loads any of them. Everything it does can be called from many
threads, and from coroutines: a `Reply` is awaited and iterated over with `async for` too.
"""

from __future__ import annotations

from ._akunu import (
    About,
    AudioError,
    ClosedError,
    Device,
    Error,
    Estimate,
    ForkedError,
    GrammarError,
    LoadError,
    OutOfMemory,
    Piece,
    PromptError,
    PromptTooLong,
    Segment,
    SessionError,
    TemplateError,
    Timings,
    ToolCall,
    Transcript,
    Word,
    WrongModel,
    __version__,
    devices,
)
from ._encoder import SentenceEncoder
from ._grammar import Grammar
from ._model import Model, Ranked, about, estimate
from ._options import ChatOptions, GenerateOptions, LoadOptions, TranscribeOptions
from ._reply import Reply
from ._session import Session

__all__ = [
    "About",
    "AudioError",
    "ChatOptions",
    "ClosedError",
    "Device",
    "Error",
    "Estimate",
    "ForkedError",
    "GenerateOptions",
    "Grammar",
    "GrammarError",
    "LoadError",
    "LoadOptions",
    "Model",
    "OutOfMemory",
    "Piece",
    "PromptError",
    "PromptTooLong",
    "Ranked",
    "Reply",
    "Segment",
    "SentenceEncoder",
    "Session",
    "SessionError",
    "TemplateError",
    "Timings",
    "ToolCall",
    "TranscribeOptions",
    "Transcript",
    "Word",
    "WrongModel",
    "__version__",
    "about",
    "devices",
    "estimate",
]
