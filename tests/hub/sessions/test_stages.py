"""Stages of a start, when they cannot be kept."""

from __future__ import annotations

import asyncio
from typing import cast

from bascule.core.errors import StorageFailed
from bascule.core.sessions import SessionId
from bascule.hub.sessions.session_table import SessionTable
from bascule.hub.sessions.stages import Stages


class FullSessionTable:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def set_stage(self, _: SessionId, stage: str) -> None:
        self.asked.append(stage)
        raise StorageFailed("the disk is full")


async def test_a_start_does_not_wait_forever_for_stages_that_cannot_be_stored() -> None:
    table = FullSessionTable()
    async with asyncio.timeout(10), Stages(SessionId("one"), cast(SessionTable, table)) as stages:
        stages.set("first")
        stages.set("second")
        await stages.until_published()
    assert table.asked == ["first", "second"]
