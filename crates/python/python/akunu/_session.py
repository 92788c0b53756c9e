"""A conversation that remembers itself, and can be kept in a file."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Union

from ._akunu import SessionError, Stream
from ._options import given
from ._reply import Reply

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._model import Model
    from ._options import ChatOptions


class Session:
    """A conversation with a model.

    A question and its answer are added to `messages` when the answer has ended; an answer that was cancelled is not. What
    the model has read stays in its prefix cache, so that only what is new is computed.
    """

    def __init__(self, model: Model, messages: Iterable[Mapping[str, Any]] = ()) -> None:
        self.model = model
        self.messages: List[Dict[str, Any]] = [dict(message) for message in messages]
        self._tokens: List[int] = []

    def chat(self, message: Union[str, Mapping[str, Any]], **options: Unpack[ChatOptions]) -> Reply:
        """Answers a question, or any message."""
        asked = {"role": "user", "content": message} if isinstance(message, str) else dict(message)

        def ended(stream: Stream) -> None:
            answer: Dict[str, Any] = {"role": "assistant", "content": stream.text}
            if stream.tool_calls:
                calls = ({"name": call.name, "arguments": call.arguments} for call in stream.tool_calls)
                answer["tool_calls"] = [{"type": "function", "function": call} for call in calls]
            self.messages += [asked, answer]
            self._tokens = stream.prompt_tokens + stream.tokens

        return Reply(self.model._answer([*self.messages, asked], given(options)), ended)

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the conversation with its part of the KV cache, as `akunu chat --session` does."""
        self.model._writer().save_session(path, self._tokens, json.dumps({"messages": self.messages}))

    @classmethod
    def load(cls, model: Model, path: Union[str, os.PathLike[str]]) -> Session:
        """Goes on with what `save` wrote, with the same model."""
        tokens, note = model._writer().load_session(path)
        try:
            session = cls(model, json.loads(note)["messages"])
        except (ValueError, KeyError, TypeError) as error:
            raise SessionError(f"the session file {os.fspath(path)} has no messages") from error
        session._tokens = tokens
        return session
