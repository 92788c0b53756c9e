"""The extension module: what the package is written over. Its classes without a public name may change."""

import os
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from typing_extensions import final

__version__: str

_Path = Union[str, os.PathLike[str]]

class Error(Exception):
    """What everything that goes wrong in akunu is."""

class LoadError(Error):
    """The model cannot be loaded."""

class OutOfMemory(LoadError):
    """The model does not fit into the memory that is free."""

class PromptError(Error):
    """The prompt cannot be answered."""

class PromptTooLong(PromptError):
    """The prompt has more tokens than the context."""

class TemplateError(PromptError):
    """The chat template is missing, or refuses the messages."""

class GrammarError(Error):
    """The grammar cannot be used."""

class AudioError(Error):
    """The recording, or how to transcribe it, cannot be used."""

class SessionError(Error):
    """The session file cannot be used."""

class WrongModel(Error):
    """The model does something else."""

class ClosedError(Error):
    """The model has been closed."""

class ForkedError(Error):
    """This process was forked after the model was loaded."""

@final
class Piece:
    """A piece of a reply: what one token completed, or a part of that."""

    @property
    def text(self) -> str:
        """Whole characters; often none."""
    @property
    def kind(self) -> str:
        """`text`, `thought`, `call` (the text is the tool's name) or `arguments` (of the call)."""
    @property
    def token(self) -> Optional[int]:
        """The token; None for what was held back until the end."""
    @property
    def index(self) -> Optional[int]:
        """Which call it belongs to."""
    @property
    def logprob(self) -> Optional[float]:
        """The natural logarithm of the token's probability, where it was asked for."""
    @property
    def top_logprobs(self) -> Optional[List[Tuple[int, float]]]:
        """The likeliest tokens with theirs."""

@final
class ToolCall:
    """A tool that the model calls."""

    @property
    def name(self) -> str:
        """The tool's name."""
    @property
    def arguments(self) -> str:
        """JSON."""

@final
class Timings:
    """How many tokens there were, and how long they took in seconds."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
    @property
    def cached_tokens(self) -> int:
        """Of those, found in the prefix cache."""
    @property
    def generated_tokens(self) -> int:
        """Tokens of the reply."""
    @property
    def waited(self) -> float:
        """From the request to when it was admitted."""
    @property
    def first_token(self) -> float:
        """From the request to the first token."""
    @property
    def total(self) -> float:
        """From the request to the last token."""
    @property
    def tokens_per_second(self) -> float:
        """Tokens a second, after the first."""

@final
class Word:
    """A word, in seconds from the start of the recording."""

    @property
    def text(self) -> str:
        """With the space before it."""
    @property
    def start(self) -> float:
        """Its first sound."""
    @property
    def end(self) -> float:
        """Its last."""
    @property
    def probability(self) -> float:
        """How likely the model finds it."""

@final
class Segment:
    """A stretch of speech, in seconds from the start of the recording."""

    @property
    def start(self) -> float:
        """Its first sound."""
    @property
    def end(self) -> float:
        """Its last."""
    @property
    def text(self) -> str:
        """What is said."""
    @property
    def words(self) -> List[Word]:
        """Where they were asked for."""
    @property
    def logprob(self) -> float:
        """The mean over its window's tokens."""
    @property
    def no_speech(self) -> float:
        """The probability that nobody speaks in its window."""

@final
class Transcript:
    """All that is said in a recording."""

    @property
    def language(self) -> str:
        """The code of its language."""
    @property
    def text(self) -> str:
        """The text of all segments."""
    @property
    def segments(self) -> List[Segment]:
        """In their order."""
    def srt(self, words: bool = False) -> str:
        """As SubRip subtitles; a cue for each word where words were timed and are asked for."""
    def vtt(self, words: bool = False) -> str:
        """As WebVTT subtitles."""

@final
class Device:
    """Something that models can run on, or why they cannot."""

    @property
    def name(self) -> str:
        """What `Model(device=…)` takes."""
    @property
    def unavailable(self) -> Optional[str]:
        """Why it cannot be used; None where it can."""
    @property
    def hardware(self) -> str:
        """The hardware's own name."""
    @property
    def level(self) -> str:
        """The kernels in use, such as an instruction-set level."""
    @property
    def threads(self) -> int:
        """Threads that a step keeps busy."""
    @property
    def free_memory(self) -> Optional[int]:
        """Bytes that a model could use."""

@final
class About:
    """What a file says of its model."""

    @property
    def purpose(self) -> str:
        """`generate`, `embed`, `rank` or `transcribe`."""
    @property
    def architecture(self) -> str:
        """Such as `llama`."""
    @property
    def parameters(self) -> int:
        """Numbers in all of its tensors."""
    @property
    def bytes(self) -> int:
        """Bytes of its tensors."""
    @property
    def format(self) -> str:
        """The number format that most of its bytes have."""
    @property
    def context(self) -> int:
        """The longest context that it was made for."""
    @property
    def width(self) -> int:
        """Values of an embedding."""
    @property
    def vocab(self) -> int:
        """Tokens in its vocabulary."""
    @property
    def layers(self) -> int:
        """Layers."""

@final
class Estimate:
    """Bytes that a model would need."""

    @property
    def weights(self) -> int:
        """Read from the file."""
    @property
    def kv(self) -> int:
        """The KV cache."""
    @property
    def scratch(self) -> int:
        """Activations, logits and constants."""
    @property
    def total(self) -> int:
        """All of them."""
    @property
    def free(self) -> Optional[int]:
        """What the device has free."""
    @property
    def longest_context(self) -> int:
        """The longest context that would fit, up to the model's own."""

def about(path: Optional[_Path]) -> About: ...
def devices() -> List[Device]:
    """Every device that this build knows of."""

def estimate(path: Optional[_Path], options: Dict[str, Any]) -> Estimate: ...
def command_line(arguments: List[str]) -> int: ...
@final
class Bell:
    def __new__(cls) -> Bell: ...
    def fileno(self) -> int: ...
    def answer(self) -> List[int]: ...

@final
class Stream:
    def next(self) -> Optional[Piece]: ...
    def poll(self, bell: Bell, number: int) -> Optional[Piece]: ...
    def cancel(self) -> None: ...
    @property
    def ended(self) -> bool: ...
    @property
    def text(self) -> str: ...
    @property
    def thoughts(self) -> str: ...
    @property
    def tool_calls(self) -> List[ToolCall]: ...
    @property
    def tokens(self) -> List[int]: ...
    @property
    def prompt_tokens(self) -> List[int]: ...
    @property
    def finish_reason(self) -> Optional[str]: ...
    @property
    def stopped_by(self) -> Optional[str]: ...
    @property
    def timings(self) -> Optional[Timings]: ...

@final
class Tokenizer:
    def encode(self, text: str, special: bool) -> List[int]: ...
    def decode(self, tokens: List[int], skip_special: bool) -> str: ...

@final
class Writer:
    def __new__(cls, path: Optional[_Path], options: Dict[str, Any]) -> Writer: ...
    def generate(self, prompt: Union[str, List[int]], options: Dict[str, Any]) -> Stream: ...
    def chat(self, messages: str, options: Dict[str, Any]) -> Stream: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    def save_session(self, path: _Path, tokens: List[int], note: str) -> None: ...
    def load_session(self, path: _Path) -> Tuple[List[int], str]: ...
    @property
    def context(self) -> int: ...
    @property
    def load(self) -> Tuple[int, int]: ...
    def close(self) -> None: ...

@final
class Reader:
    def __new__(cls, path: Optional[_Path], ranks: bool, options: Dict[str, Any]) -> Reader: ...
    @property
    def width(self) -> int: ...
    @property
    def context(self) -> int: ...
    def embed(self, lines: List[str], prefix: str, how: Tuple[bool, bool], dimensions: int) -> bytearray: ...
    def rank(self, query: str, documents: List[str], truncate: bool) -> List[float]: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    def close(self) -> None: ...

@final
class Scribe:
    def __new__(cls, path: Optional[_Path], options: Dict[str, Any]) -> Scribe: ...
    def transcribe(
        self,
        recording: Union[_Path, bytes],
        on_segment: Optional[Callable[[Segment], object]],
        options: Dict[str, Any],
    ) -> Transcript: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def context(self) -> int: ...
    def close(self) -> None: ...
