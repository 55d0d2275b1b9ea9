"""Stages of a start, when they cannot be kept."""

from __future__ import annotations

import asyncio
from typing import cast

from bascule.core.errors import StorageFailed
from bascule.core.sessions import SessionId
from bascule.hub.sessions.session_table import Book
from bascule.hub.sessions.stages import Stages


class FullBook:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def stage(self, _: SessionId, stage: str) -> None:
        self.asked.append(stage)
        raise StorageFailed("the disk is full")


async def test_a_start_does_not_wait_for_ever_for_stages_that_cannot_be_kept() -> None:
    book = FullBook()
    async with asyncio.timeout(10), Stages(SessionId("one"), cast(Book, book)) as stages:
        stages.say("first")
        stages.say("second")
        await stages.told()
    assert book.asked == ["first", "second"]
