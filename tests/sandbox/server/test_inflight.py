from __future__ import annotations

import asyncio

import pytest

from bascule.core.errors import ActionCancelled, SandboxDied
from bascule.core.identity import EventId
from bascule.sandbox.server.inflight import InFlight
from bascule.serving.refusals import Refused

ID = EventId("an-action")


async def test_an_action_is_answered_and_forgotten() -> None:
    in_flight = InFlight()
    assert await in_flight.run(ID, asyncio.sleep(0, "done")) == "done"
    assert len(in_flight) == 0


async def test_cancelling_returns_once_the_action_has_ended() -> None:
    in_flight, cleaned = InFlight(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.set()

    running = asyncio.create_task(in_flight.run(ID, work()))
    await asyncio.sleep(0)
    assert await in_flight.cancel(ID)

    assert cleaned.is_set()
    with pytest.raises(ActionCancelled):
        await running


async def test_a_cancelled_action_leaves_its_task_usable() -> None:
    in_flight = InFlight()

    async def request() -> str:
        with pytest.raises(ActionCancelled):
            await in_flight.run(ID, asyncio.Event().wait())
        await asyncio.sleep(0)
        return "answered"

    task = asyncio.create_task(request())
    await asyncio.sleep(0)
    in_flight.cancel_soon(ID)
    assert await task == "answered"
    assert task.cancelling() == 0


async def test_an_action_that_arrives_after_its_cancellation_is_not_begun() -> None:
    in_flight, begun = InFlight(), asyncio.Event()

    async def work() -> None:
        begun.set()

    assert not await in_flight.cancel(ID)
    with pytest.raises(ActionCancelled, match="before it arrived"):
        await in_flight.run(ID, work())
    assert not begun.is_set()


async def test_the_same_action_is_not_done_twice_at_once() -> None:
    in_flight, release = InFlight(), asyncio.Event()
    first = asyncio.create_task(in_flight.run(ID, release.wait()))
    await asyncio.sleep(0)
    with pytest.raises(Refused, match="already"):
        await in_flight.run(ID, asyncio.sleep(0))
    release.set()
    assert await first


async def test_actions_without_an_id_do_not_conflict() -> None:
    in_flight, release = InFlight(), asyncio.Event()
    both = asyncio.gather(*(in_flight.run(None, release.wait()) for _ in range(2)))
    await asyncio.sleep(0)
    assert len(in_flight) == 2
    release.set()
    assert await both == [True, True]


async def test_cancelling_the_task_cancels_its_action() -> None:
    in_flight = InFlight()
    task = asyncio.create_task(in_flight.run(ID, asyncio.Event().wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(in_flight) == 0


async def test_ending_all_actions_raises_the_reason_in_every_caller() -> None:
    in_flight = InFlight()
    tasks = [
        asyncio.create_task(in_flight.run(name, asyncio.Event().wait()))
        for name in (EventId("a"), EventId("b"), None)
    ]
    await asyncio.sleep(0)
    in_flight.end_all(SandboxDied("The sandbox is stopping"))
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [SandboxDied] * 3
    with pytest.raises(SandboxDied):
        await in_flight.run(EventId("later"), asyncio.sleep(0))
