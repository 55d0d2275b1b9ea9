from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

import pytest

from bascule.cli.loop import LoopThread


def test_work_runs_in_another_thread_and_its_result_comes_back() -> None:
    async def work() -> int:
        return 42

    with LoopThread() as loop:
        assert loop.start(work()).result() == 42


def test_a_held_context_is_entered_and_exited_by_one_task() -> None:
    tasks: list[asyncio.Task[None] | None] = []

    @asynccontextmanager
    async def place() -> AsyncIterator[str]:
        tasks.append(asyncio.current_task())
        yield "open"
        tasks.append(asyncio.current_task())

    with LoopThread() as loop, loop.hold(place()) as value:
        assert value == "open"
        assert len(tasks) == 1

    assert len(tasks) == 2
    assert tasks[0] is tasks[1]


def test_an_error_on_entering_a_held_context_is_raised_to_the_caller() -> None:
    class Place(AsyncExitStack):
        async def __aenter__(self) -> Self:
            raise OSError("no room")

    with LoopThread() as loop, pytest.raises(OSError, match="no room"), loop.hold(Place()):
        pass


def test_an_error_on_exiting_a_held_context_is_raised_to_the_caller() -> None:
    @asynccontextmanager
    async def place() -> AsyncIterator[str]:
        yield "open"
        raise OSError("stuck")

    with LoopThread() as loop, pytest.raises(OSError, match="stuck"), loop.hold(place()):
        pass


def test_leaving_the_loop_thread_cancels_running_work() -> None:
    cancelled = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def running() -> None:
        """After this `work` has begun to wait."""

    with LoopThread() as loop:
        loop.start(work())
        loop.start(running()).result()

    assert cancelled == [True]
