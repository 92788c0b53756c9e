"""A reply as it comes: for loops, for threads that wait, for coroutines."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from typing import Any, AsyncIterator, Callable, Dict, Generator, Iterator, List, Optional

from ._akunu import Bell, Piece, Stream, Timings, ToolCall


class _LoopBell:
    """How an event loop learns that something has come for one of those who await."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.bell = Bell()
        self.waiting: Dict[int, asyncio.Future[None]] = {}
        loop.add_reader(self.bell.fileno(), self._rung)

    def _rung(self) -> None:
        for number in self.bell.answer():
            future = self.waiting.pop(number, None)
            if future is not None and not future.done():
                future.set_result(None)


_bells: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopBell] = weakref.WeakKeyDictionary()
_numbers = itertools.count()


class Reply:
    """A reply, computed since it was asked for.

    Iterate over it, with `for` or `async for`, to get `Piece`s as they come. Or take `text` and the other properties, which
    wait for the end; in coroutines `await` the reply before. Forgetting it cancels the rest.
    """

    def __init__(self, stream: Stream, on_end: Optional[Callable[[Stream], None]] = None) -> None:
        self._stream = stream
        self._on_end = on_end

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        piece = self._stream.next()
        if piece is None:
            self._end()
            raise StopIteration
        return piece

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self

    async def __anext__(self) -> Piece:
        loop = asyncio.get_running_loop()
        bell = _bells.get(loop)
        if bell is None:
            bell = _bells[loop] = _LoopBell(loop)
        number = next(_numbers)
        while True:
            piece = self._stream.poll(bell.bell, number)
            if piece is not None:
                return piece
            if self._stream.ended:
                self._end()
                raise StopAsyncIteration
            # The bell is answered by this loop, so not before this is awaited.
            future = bell.waiting[number] = loop.create_future()
            try:
                await future
            finally:
                bell.waiting.pop(number, None)

    def __await__(self) -> Generator[Any, None, Reply]:
        return self._rest().__await__()

    async def _rest(self) -> Reply:
        async for _ in self:
            pass
        return self

    def _end(self) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None and self._stream.timings is not None:
            on_end(self._stream)

    def wait(self) -> Reply:
        """Waits for the end."""
        for _ in self:
            pass
        return self

    def cancel(self) -> None:
        """Ends it; what has come stays."""
        self._stream.cancel()

    @property
    def text(self) -> str:
        """The whole text, without thoughts and calls."""
        return self.wait()._stream.text

    @property
    def thoughts(self) -> str:
        """What the model thought before it answered."""
        return self.wait()._stream.thoughts

    @property
    def tool_calls(self) -> List[ToolCall]:
        """What the model calls."""
        return self.wait()._stream.tool_calls

    @property
    def tokens(self) -> List[int]:
        """All tokens of the reply."""
        return self.wait()._stream.tokens

    @property
    def finish_reason(self) -> Optional[str]:
        """`stop`, `length` (of `max_tokens`), `context` (it is full), `tool_calls` or `cancelled`."""
        return self.wait()._stream.finish_reason

    @property
    def stopped_by(self) -> Optional[str]:
        """The stop string that ended it."""
        return self.wait()._stream.stopped_by

    @property
    def timings(self) -> Optional[Timings]:
        """How many tokens there were, and how long they took; None where it was cancelled."""
        return self.wait()._stream.timings

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        stream = self._stream
        return f"Reply({stream.text!r}, finish_reason={stream.finish_reason!r})"
