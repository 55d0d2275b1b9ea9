"""A language model's reply as it is generated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from bascule.bridge import calls
from bascule.bridge.calls import BridgeCall, ChatReply
from bascule.core.errors import UsageError

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

    from bascule.core.contracts import Bridge


class ChatStream:
    """A reply in pieces. Iterate over the stream to get the pieces; afterwards `reply` is complete.
    Leaving the loop early cancels the request."""

    def __init__(self, bridge: Bridge, call: BridgeCall[ChatReply]) -> None:
        self._call = call
        self._pieces: SimpleQueue[str | None] = SimpleQueue()
        self._reply: ChatReply | None = None
        self._answer = bridge.begin(
            call.type, call.params, timeout=call.timeout, on_progress=self._pieces.put
        )
        self._answer.add_done_callback(lambda _: self._pieces.put(None))

    @property
    def reply(self) -> ChatReply:
        if self._reply is None:
            raise UsageError("The reply is available once the stream was read to its end")
        return self._reply

    def __iter__(self) -> Iterator[str]:
        try:
            while (piece := self._pieces.get()) is not None:
                yield piece
            self._reply = calls.read(self._call, self._answer.result())
        finally:
            self._answer.cancel()


class AsyncChatStream:
    """`ChatStream` for `async for`."""

    def __init__(self, bridge: Bridge, call: BridgeCall[ChatReply]) -> None:
        self._bridge = bridge
        self._call = call
        self._reply: ChatReply | None = None

    @property
    def reply(self) -> ChatReply:
        if self._reply is None:
            raise UsageError("The reply is available once the stream was read to its end")
        return self._reply

    async def __aiter__(self) -> AsyncIterator[str]:
        import asyncio

        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        answer = await asyncio.to_thread(self._begin, loop, pieces)
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            self._reply = calls.read(self._call, answer.result())
        finally:
            loop.run_in_executor(None, answer.cancel)

    def _begin(
        self, loop: asyncio.AbstractEventLoop, pieces: asyncio.Queue[str | None]
    ) -> Future[Any]:
        def put(piece: str | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

        call = self._call
        answer = self._bridge.begin(call.type, call.params, timeout=call.timeout, on_progress=put)
        answer.add_done_callback(lambda _: put(None))
        return answer
