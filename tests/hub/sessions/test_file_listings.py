"""Listings and changes of files from a program that answers in place of a sandbox."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from bascule.adapters.e2b._watchers import _Watcher
from bascule.core.errors import InvalidState, MessageTooLarge, SandboxUnreachable
from bascule.core.sessions import SessionId
from bascule.hub.sessions.sandbox_messages import FileChangeMessage, parse_message
from bascule.wire import to_json

from .test_rules_in_use import impostor

ENTRY = {"name": "a", "path": "/w/a", "type": "file", "size": 1, "mode": 0o644}
ENTRY |= {"permissions": "-rw-r--r--", "owner": "o", "group": "g", "modified": 1.0}


async def test_a_listing_has_limits_and_is_parsed_outside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[int] = []

    def noted(kind: Any, value: object) -> Any:
        threads.append(threading.get_ident())
        return parse_message(kind, value)

    monkeypatch.setattr("bascule.hub.sessions.sandbox_client.parse_message", noted)
    async with impostor(to_json({"entries": [ENTRY] * 10_000})) as client:
        assert len(await client.entries("/w", depth=1)) == 10_000
    assert threads
    assert threading.get_ident() not in threads
    async with impostor(to_json({"entries": [ENTRY] * 10_001})) as client:
        with pytest.raises(SandboxUnreachable, match="entries"):
            await client.entries("/w", depth=1)
    async with impostor(b'{"entries": [' + b" " * (9 << 20)) as client:
        with pytest.raises(MessageTooLarge):
            await client.entries("/w", depth=1)


def test_a_watcher_keeps_at_most_one_mebibyte_of_paths() -> None:
    watcher = _Watcher(SessionId("abc123abc"))
    long = FileChangeMessage(path="ü" * 16_000, type="write")
    for _ in range(32):
        watcher.add(long)
    with pytest.raises(InvalidState, match="32 changes were not fetched"):
        watcher.add(long)
    assert len(watcher.take()) == 32
    watcher.add(long)  # there is room again

    watcher, short = _Watcher(SessionId("abc123abc")), FileChangeMessage(path="a", type="write")
    for _ in range(10_000):
        watcher.add(short)
    with pytest.raises(InvalidState, match="10000 changes"):
        watcher.add(short)
