"""Options by name, as `Model` and its methods take them. What is not given keeps the engine's default."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, TypedDict, Union

from ._grammar import Grammar


class LoadOptions(TypedDict, total=False):
    """How to load a model."""

    context: Optional[int]
    """Positions a sequence can have [default: the model's own, up to 8192]."""
    threads: Optional[int]
    """Threads that compute [default: as many as this process may use]."""
    kv: Optional[str]
    """Number format of the KV cache: `f32`, `f16` (the default) or `q8_0`."""
    device: Optional[str]
    """One of `akunu.devices()` [default: the best]."""
    level: Optional[str]
    """Instruction-set level of the kernels [default: the best]."""
    activations: Optional[str]
    """What quantized weights are multiplied with: `int8` (the default) or `f32`."""
    memory: Optional[int]
    """Bytes that the model may need [default: what is free]."""
    mapped: bool
    """Use the weights where the file is mapped: starts at once, generates slower."""
    limits: Dict[str, int]
    """What untrusted files may cost, by name: see `akunu serve --help`, `--limit`."""


class GenerateOptions(TypedDict, total=False):
    """What to generate, and how."""

    max_tokens: Optional[int]
    """Tokens at most [default: until the model ends, or the context is full]."""
    temperature: float
    """0: the likeliest token each time (the default of `generate`); above: a draw (`chat`: 0.7)."""
    top_k: int
    """Choose among this many of the likeliest tokens; 0: all [default: 40]."""
    top_p: float
    """Choose among the likeliest that together have this probability [default: 0.95]."""
    min_p: float
    """Choose among those at least this share as likely as the likeliest [default: 0.05]."""
    typical_p: float
    """Choose among the most typical that together have this probability [default: 1]."""
    mirostat: float
    """Keep the surprise near so many bits a token, instead of truncating; 0: off."""
    repeat_penalty: float
    """Make recent tokens less likely; 1: not at all."""
    frequency_penalty: float
    """Make recent tokens less likely every time they came; 0: not at all."""
    presence_penalty: float
    """Make tokens that came recently less likely, once; 0: not at all."""
    repeat_last: int
    """How many recent tokens these three look at [default: 64]."""
    dry: float
    """Make it unlikely to repeat passages; 0: off."""
    logit_bias: Dict[int, float]
    """Added to the logits of tokens."""
    seed: Optional[int]
    """The same seed draws the same tokens [default: another one every time]."""
    stop: Union[str, Sequence[str]]
    """The text ends before the first of these."""
    stop_tokens: Sequence[int]
    """The text ends before any of these tokens."""
    ignore_eos: bool
    """Go on after the model's end token."""
    logprobs: Optional[int]
    """Log-probabilities of every token, and of so many likeliest ones."""
    context_shift: Optional[int]
    """When the context is full, forget the older half of what comes after so many tokens, instead of ending."""
    grammar: Optional[Grammar]
    """The form that the text must have."""
    speculation: str
    """`ngram`: draft what followed the last tokens before; the same text in fewer steps. `off`: the default."""


class ChatOptions(GenerateOptions, total=False):
    """What to answer, and how: besides `GenerateOptions`."""

    tools: Optional[Sequence[Mapping[str, Any]]]
    """What the model may call: `{"type": "function", "function": {"name", "description", "parameters"}}`."""
    tool_choice: Union[str, Mapping[str, Any], None]
    """`auto` (the default), `none`, `required`, or the name of a tool."""
    parallel_tool_calls: bool
    """Whether a reply may have more than one call [default: yes]."""
    think: Optional[bool]
    """Whether the model thinks first [default: as its template has it]."""
    think_budget: Optional[int]
    """Tokens of its thoughts at most."""
    variables: Mapping[str, Any]
    """Other variables of the chat template."""


class TranscribeOptions(TypedDict, total=False):
    """What to transcribe, and how."""

    language: Optional[str]
    """A code such as `en`, or a name [default: found out from the first 30 seconds]."""
    translate: bool
    """Into English."""
    words: bool
    """When each word was said."""
    timestamps: bool
    """Whether the model says when segments begin and end [default: yes]."""
    prompt: Optional[str]
    """What was said before, or words to expect."""
    condition: bool
    """Whether a window knows the text of those before it [default: yes]."""
    beams: int
    """Beams at temperature 0 [default: 5]."""
    best_of: int
    """Samples at temperatures above 0 [default: 5]."""
    temperatures: Sequence[float]
    """Tried one after the other until a result is good enough."""
    keep_silence: bool
    """Give the model silence too; it may make something up."""
    seed: int
    """The same seed draws the same samples."""


def given(options: Mapping[str, Any]) -> Dict[str, Any]:
    """Options as the engine takes them."""
    taken = {name: value for name, value in options.items() if value is not None}
    if isinstance(taken.get("stop"), str):
        taken["stop"] = [taken["stop"]]
    return taken
