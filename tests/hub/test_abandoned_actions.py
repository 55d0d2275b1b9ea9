"""Nobody waits any more: windows are told, unless somebody asks again in time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bascule.core.errors import BasculeError
from bascule.core.identity import EventId
from bascule.core.windows import WindowId
from bascule.hub.abandoned_actions import Departures
from bascule.hub.registry import Host
from bascule.hub.switchboard import Ask, Asker, Event, Switchboard

HOST = Host("host", "sid", WindowId("window"), "owner", 1)


class Somebody(Asker):
    agent = "Ann"
    agent_id = "1"

    async def answer(self, observation: Event) -> None:
        raise NotImplementedError

    async def progress(self, frame: Event) -> None:
        raise NotImplementedError

    async def fail(self, action_id: EventId, error: BasculeError) -> None:
        raise NotImplementedError


async def test_a_window_is_told_what_nobody_asked_for_again() -> None:
    switchboard = Switchboard(limit=10, on_end=lambda *_: None)
    told: asyncio.Queue[tuple[Host, Sequence[EventId]]] = asyncio.Queue()

    async def tell(host: Host, ids: Sequence[EventId]) -> None:
        told.put_nowait((host, ids))

    departures = Departures(switchboard, tell, grace=0.01)
    gone, back = Somebody(), Somebody()
    for each in ("lost", "asked again"):
        switchboard.begin(Ask(EventId(each), "run", HOST.window_id, HOST, gone))
    left = switchboard.leave(gone)
    switchboard.begin(Ask(EventId("asked again"), "run", HOST.window_id, HOST, back))
    departures.left(left)
    assert await told.get() == (HOST, ["lost"])
    await departures.aclose()
    assert told.empty()
