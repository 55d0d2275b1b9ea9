"""Actions are sent to a window in the order they came, whatever each has to wait for before."""

from __future__ import annotations

import asyncio

import pytest

from bascule.core.errors import ActionCancelled, BasculeError
from bascule.core.identity import EventId
from bascule.core.windows import WindowId
from bascule.hub.action_queues import ActionQueues
from bascule.hub.switchboard import Caller, Event

WINDOW, ANOTHER = WindowId("window"), WindowId("another")


class _Nobody(Caller):
    agent = "nobody"

    async def answer(self, observation: Event) -> None: ...

    async def progress(self, frame: Event) -> None: ...

    async def fail(self, action_id: EventId, error: BasculeError) -> None: ...


class _Sending:
    """Sends named actions, each once its own preparation is done, and notes in which order."""

    def __init__(self) -> None:
        self.turns = ActionQueues()
        self.sent: list[str] = []
        self.caller = _Nobody()

    def start(
        self, name: str, prepared: asyncio.Event, *, window: WindowId = WINDOW
    ) -> asyncio.Task[None]:
        return asyncio.create_task(self._send(name, prepared, window))

    async def _send(self, name: str, prepared: asyncio.Event, window: WindowId) -> None:
        async with self.turns.turn(window, EventId(name), self.caller) as turn:
            await prepared.wait()
            await turn.wait()
            self.sent.append(name)


def _done() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


async def test_a_slow_preparation_delays_later_actions_in_the_queue() -> None:
    sending, slow = _Sending(), asyncio.Event()
    first, second = sending.start("first", slow), sending.start("second", _done())
    other = sending.start("other", _done(), window=ANOTHER)
    await other
    assert sending.sent == ["other"]  # another window does not wait
    slow.set()
    await asyncio.gather(first, second)
    assert sending.sent == ["other", "first", "second"]


async def test_a_cancelled_action_does_not_let_later_ones_overtake() -> None:
    sending, slow = _Sending(), asyncio.Event()
    first, second = sending.start("first", slow), sending.start("second", _done())
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    third = sending.start("third", _done())
    await asyncio.sleep(0)
    assert sending.sent == []
    slow.set()
    await asyncio.gather(first, third)
    assert sending.sent == ["first", "third"]


async def test_a_cancelled_action_is_not_sent_when_its_turn_comes() -> None:
    sending, slow = _Sending(), asyncio.Event()
    first, second = sending.start("first", slow), sending.start("second", _done())
    await asyncio.sleep(0)
    assert not sending.turns.cancel(EventId("second"), _Nobody())  # not its caller
    assert sending.turns.cancel(EventId("second"), sending.caller)
    slow.set()
    await first
    with pytest.raises(ActionCancelled):
        await second
    assert sending.sent == ["first"]
    assert not sending.turns.cancel(EventId("first"), sending.caller)
