from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from bascule.core.broadcaster import MAX_PENDING, Broadcaster, Inbox

TIMEOUT = 20.0


async def rest(items: AsyncIterator[int | None]) -> list[int | None]:
    return [item async for item in items]


async def test_every_subscriber_of_a_topic_gets_its_events() -> None:
    broadcaster: Broadcaster[int] = Broadcaster()
    one, two, other = (broadcaster.subscribe(topic) for topic in ("a", "a", "b"))
    broadcaster.publish(1, topic="a")
    broadcaster.publish(2, topic="a")
    broadcaster.publish(3, topic="b")
    broadcaster.close()

    assert await rest(one.items()) == [1, 2]
    assert await rest(two.items()) == [1, 2]
    assert await rest(other.items()) == [3]


async def test_events_before_the_subscription_are_not_delivered() -> None:
    broadcaster: Broadcaster[int] = Broadcaster()
    broadcaster.publish(1)
    with broadcaster.subscribe() as subscription:
        broadcaster.publish(2)

    assert await rest(subscription.items()) == [2]


async def test_a_waiting_subscriber_is_woken() -> None:
    broadcaster: Broadcaster[int] = Broadcaster()
    with broadcaster.subscribe() as subscription:
        items = subscription.items()
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        broadcaster.publish(1)

        assert await asyncio.wait_for(waiting, TIMEOUT) == 1


async def test_silence_produces_a_heartbeat() -> None:
    broadcaster: Broadcaster[int] = Broadcaster()
    with broadcaster.subscribe() as subscription:
        items = subscription.items(heartbeat=0.001)

        assert await anext(items) is None
        broadcaster.publish(1)
        assert await anext(items) == 1


async def test_a_slow_subscriber_is_disconnected_and_others_are_not() -> None:
    broadcaster: Broadcaster[int] = Broadcaster()
    slow, quick = broadcaster.subscribe(), broadcaster.subscribe()
    items = quick.items()
    for number in range(MAX_PENDING + 1):
        broadcaster.publish(number)
        assert await anext(items) == number

    assert await rest(slow.items()) == list(range(MAX_PENDING))
    broadcaster.publish(-1)
    assert await anext(items) == -1


async def test_a_topic_ends_once_its_events_are_read() -> None:
    broadcaster: Broadcaster[int] = Broadcaster()
    ended, other = broadcaster.subscribe("a"), broadcaster.subscribe("b")
    broadcaster.publish(1, topic="a")
    broadcaster.end("a")
    broadcaster.publish(2, topic="a")
    broadcaster.publish(3, topic="b")

    assert await rest(ended.items()) == [1]
    assert await anext(other.items()) == 3


async def test_a_closed_broadcaster_gives_no_events() -> None:
    broadcaster: Broadcaster[int] = Broadcaster()
    broadcaster.close()
    subscription = broadcaster.subscribe()
    broadcaster.publish(1)

    assert await rest(subscription.items()) == []


async def test_a_cancelled_reader_loses_no_event() -> None:
    broadcaster: Broadcaster[int] = Broadcaster()
    with broadcaster.subscribe() as subscription:
        waiting = asyncio.ensure_future(anext(subscription.items()))
        await asyncio.sleep(0)
        broadcaster.publish(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        assert await anext(subscription.items()) == 1


class Sums(Inbox[int]):
    def __init__(self) -> None:
        super().__init__()
        self._sum = 0

    def add(self, number: int) -> None:
        self._sum += number
        self.notify()

    def _is_empty(self) -> bool:
        return self._sum == 0

    def _take(self) -> int:
        taken, self._sum = self._sum, 0
        return taken


async def test_items_that_come_while_gathering_are_combined() -> None:
    with Sums() as sums:
        sums.add(1)
        gathering = asyncio.ensure_future(anext(sums.items(gather=TIMEOUT)))
        await asyncio.sleep(0)
        sums.add(2)
        sums.finish()  # ends the gathering at once

        assert await asyncio.wait_for(gathering, TIMEOUT / 2) == 3
