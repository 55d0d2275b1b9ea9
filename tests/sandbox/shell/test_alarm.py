"""The alarm: rings for the last deadline set, and for no other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bascule.sandbox.shell.alarm import Alarm


@pytest.fixture
async def loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


@pytest.fixture
def alarm(loop: asyncio.AbstractEventLoop) -> Iterator[Alarm]:
    alarm = Alarm(loop)
    yield alarm
    alarm.close()


class Bell:
    """Notes when it rings."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.rang: list[float] = []
        self.heard = asyncio.Event()

    def ring(self) -> None:
        self.rang.append(self._loop.time())
        self.heard.set()


async def test_an_alarm_fires_once_after_its_deadline(
    loop: asyncio.AbstractEventLoop, alarm: Alarm
) -> None:
    bell, due = Bell(loop), loop.time() + 0.01
    alarm.set(due, bell.ring)
    await bell.heard.wait()
    assert len(bell.rang) == 1
    assert bell.rang[0] >= due


async def test_a_deadline_moved_to_later_rings_later(
    loop: asyncio.AbstractEventLoop, alarm: Alarm
) -> None:
    bell, due = Bell(loop), loop.time() + 0.03
    alarm.set(loop.time() + 0.001, bell.ring)
    alarm.set(due, bell.ring)
    await bell.heard.wait()
    assert len(bell.rang) == 1
    assert bell.rang[0] >= due


async def test_a_deadline_moved_to_earlier_rings_earlier(
    loop: asyncio.AbstractEventLoop, alarm: Alarm
) -> None:
    bell = Bell(loop)
    alarm.set(loop.time() + 60, bell.ring)
    alarm.set(loop.time() + 0.01, bell.ring)
    async with asyncio.timeout(5):
        await bell.heard.wait()


async def test_a_cleared_deadline_does_not_ring(
    loop: asyncio.AbstractEventLoop, alarm: Alarm
) -> None:
    cleared, later = Bell(loop), Bell(loop)
    alarm.set(loop.time() + 0.001, cleared.ring)
    alarm.clear(cleared.ring)
    alarm.set(loop.time() + 0.01, later.ring)
    await later.heard.wait()
    assert cleared.rang == []


async def test_clearing_one_deadline_keeps_the_others(
    loop: asyncio.AbstractEventLoop, alarm: Alarm
) -> None:
    first, second = Bell(loop), Bell(loop)
    alarm.set(loop.time() + 0.001, first.ring)
    alarm.set(loop.time() + 0.001, second.ring)
    alarm.clear(first.ring)
    async with asyncio.timeout(5):
        await second.heard.wait()
    assert first.rang == []
