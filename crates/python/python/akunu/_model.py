"""A loaded model of any kind."""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Type, Union

import numpy as np

from . import _akunu
from ._akunu import About, Estimate, Reader, Scribe, Segment, Stream, Transcript, Writer, WrongModel
from ._options import given
from ._reply import Reply

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from ._options import ChatOptions, GenerateOptions, LoadOptions, TranscribeOptions

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Ranked:
    """A document with how well it answers a query."""

    index: int
    """Its place in the list that was given."""
    score: float
    """The higher, the better."""
    text: str
    """The document."""


def about(path: Optional[Path] = None) -> About:
    """What a model file holds, without loading it; None: the model inside the package."""
    return _akunu.about(path)


def estimate(path: Optional[Path] = None, **options: Unpack[LoadOptions]) -> Estimate:
    """What memory a model would need, without loading it."""
    return _akunu.estimate(path, given(options))


def _wav(samples: Any) -> bytes:
    """A wav file of mono samples at 16 kHz."""
    array = np.ascontiguousarray(samples, dtype="<f4")
    if array.ndim != 1:
        raise TypeError(f"samples: must have one dimension (mono, 16 kHz), not {array.ndim}")
    header = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + array.nbytes, b"WAVE", b"fmt ", 16, 3, 1, 16_000, 64_000, 4,
                         32, b"data", array.nbytes)  # fmt: skip
    return header + array.tobytes()


class Model:
    """A loaded model.

    `Model()` is the small story teller inside the package; `Model(path)` a GGUF or safetensors file, a Hugging Face or MLX
    directory, a whisper.cpp file, or the short name of a downloaded model (`akunu models`).

    What it can do depends on the file: `generate` and `chat`, `embed`, `rerank`, or `transcribe`. `task` says which, where
    the file could do several: `Model(path, task="embed")` takes embeddings from a model that writes.

    All methods can be called from any thread, and let other threads run meanwhile. Generations run at once, up to
    `parallel` of them; embeddings, rankings and transcriptions one after the other. After a fork the child must load its
    own model. `close` frees the memory; a `with` block does so at its end.
    """

    def __init__(
        self,
        path: Optional[Path] = None,
        *,
        task: str = "auto",
        parallel: Optional[int] = None,
        cache: Optional[int] = None,
        chat_template: Optional[str] = None,
        pooling: Optional[str] = None,
        **options: Unpack[LoadOptions],
    ) -> None:
        """Loads a model.

        task: `auto`, `generate`, `embed`, `rank` or `transcribe`.
        parallel: generations that run at once; others wait [default: 16].
        cache: positions of finished texts that are remembered for prompts that begin the same way [default: 16384].
        chat_template: a Jinja template instead of the model's own.
        pooling: how the tokens of a text become one vector: `mean`, `cls` or `last` [default: the model's own way].
        Other options: see `LoadOptions`.
        """
        self.path = path
        self.task = about(path).purpose if task == "auto" else task
        all_options = given({
            **options,
            "parallel": parallel,
            "cache": cache,
            "chat_template": chat_template,
            "pooling": pooling,
        })
        self._core: Union[Writer, Reader, Scribe]
        if self.task == "generate":
            self._core = Writer(path, all_options)
        elif self.task in ("embed", "rank"):
            self._core = Reader(path, self.task == "rank", all_options)
        elif self.task == "transcribe":
            self._core = Scribe(path, all_options)
        else:
            raise ValueError(f"task: {self.task!r} is none of auto, generate, embed, rank, transcribe")

    def _wrong(self, task: str) -> WrongModel:
        return WrongModel(f"{self.path or 'the embedded model'} was loaded to {self.task}, not to {task}")

    def _writer(self) -> Writer:
        if not isinstance(self._core, Writer):
            raise self._wrong("generate")
        return self._core

    def _reader(self, task: str) -> Reader:
        if not isinstance(self._core, Reader) or self.task != task:
            raise self._wrong(task)
        return self._core

    def generate(self, prompt: Union[str, Sequence[int]], **options: Unpack[GenerateOptions]) -> Reply:
        """Continues a text, or tokens. Options: see `GenerateOptions`."""
        prompt = prompt if isinstance(prompt, str) else list(prompt)
        return Reply(self._writer().generate(prompt, given(options)))

    def chat(self, messages: Union[str, Sequence[Mapping[str, Any]]], **options: Unpack[ChatOptions]) -> Reply:
        """Answers messages, `{"role": …, "content": …}` each, or one question. Options: see `ChatOptions`.

        A last message of the assistant's is gone on with.
        """
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return Reply(self._answer(messages, given(options)))

    def _answer(self, messages: Sequence[Mapping[str, Any]], options: Dict[str, Any]) -> Stream:
        taken: Dict[str, Any] = {"temperature": 0.7, **options}
        for name in ("tools", "variables"):
            if name in taken:
                taken[name] = json.dumps(taken[name])
        choice = taken.get("tool_choice")
        if isinstance(choice, Mapping):
            taken["tool_choice"] = options["tool_choice"]["function"]["name"]
        return self._writer().chat(json.dumps(list(messages)), taken)

    def embed(
        self,
        texts: Union[str, Sequence[str]],
        *,
        prefix: str = "",
        normalize: bool = True,
        truncate: bool = False,
        dimensions: Optional[int] = None,
    ) -> NDArray[np.float32]:
        """Vectors of texts, one row each; of one text one vector.

        prefix: put before every text, as some models want it.
        normalize: make every vector as long as 1.
        truncate: drop the end of texts that are too long, instead of raising `PromptTooLong`.
        dimensions: keep so many numbers of every vector.
        """
        reader = self._reader("embed")
        width = reader.width if dimensions is None else dimensions
        lines = [texts] if isinstance(texts, str) else list(texts)
        # The array is a view of what the engine wrote.
        vectors = np.frombuffer(reader.embed(lines, prefix, (normalize, truncate), width), dtype=np.float32)
        return vectors if isinstance(texts, str) else vectors.reshape(len(lines), width)

    def rerank(
        self, query: str, documents: Sequence[str], *, top: Optional[int] = None, truncate: bool = False
    ) -> List[Ranked]:
        """Documents by how well they answer a query, the best first; `top` of them."""
        documents = list(documents)
        scores = self._reader("rank").rank(query, documents, truncate)
        ranked = [Ranked(index, score, documents[index]) for index, score in enumerate(scores)]
        return sorted(ranked, key=lambda r: -r.score)[:top]

    def transcribe(
        self,
        recording: Union[Path, bytes, Sequence[float], NDArray[Any]],
        *,
        on_segment: Optional[Callable[[Segment], object]] = None,
        **options: Unpack[TranscribeOptions],
    ) -> Transcript:
        """What is said in a recording: a file (wav, mp3, flac, ogg, m4a), the bytes of one, or mono samples at 16 kHz.

        on_segment: gets segments as they become final; what it raises ends the transcription.
        Other options: see `TranscribeOptions`.
        """
        if not isinstance(self._core, Scribe):
            raise self._wrong("transcribe")
        if isinstance(recording, (bytes, str, os.PathLike)):
            source: Union[bytes, Path] = recording
        else:
            source = _wav(recording)
        return self._core.transcribe(source, on_segment, given(options))

    def tokenize(self, text: str, *, special: bool = True) -> List[int]:
        """The tokens of a text; `special`: with those that the vocabulary puts around it, and those written in it."""
        return self._core.tokenizer.encode(text, special)

    def detokenize(self, tokens: Sequence[int], *, skip_special: bool = False) -> str:
        """The text of tokens."""
        return self._core.tokenizer.decode(list(tokens), skip_special)

    @property
    def context(self) -> int:
        """Positions a sequence can have."""
        return self._core.context

    @property
    def width(self) -> int:
        """Numbers of an embedding."""
        return self._reader("embed").width

    @property
    def load(self) -> tuple[int, int]:
        """Generations that run, and generations that wait."""
        return self._writer().load

    def close(self) -> None:
        """Ends what runs, and frees the memory. Using the model afterwards raises `ClosedError`."""
        self._core.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Model({os.fspath(self.path) if self.path else ''!r}, task={self.task!r})"
