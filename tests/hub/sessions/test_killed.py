"""Kills at any stage of a session's life lose no file and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.cgroups import groups_named, members_of

from .ordeal import Ordeal, Serving, Victims

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="makes things for other users"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bsc-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


class LocalVictims(Victims):
    names = ("sandbox", "warden", "zygote")

    async def find(self, name: str, session_id: str, hub: Serving) -> Sequence[int]:
        if name == "sandbox":
            return sorted(members_of(session_id))
        mark = {"warden": b"spawn.local.warden", "zygote": b"_zygote_main"}[name]
        inside = members_of(session_id)
        return [pid for pid in _below(hub.pid) - inside if mark in _command_of(pid)]

    async def left(self, session_id: str) -> Sequence[object]:
        return [*groups_named(session_id), *sorted(members_of(session_id))]


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _below(root: int) -> set[int]:
    found: set[int] = set()
    new = {root}
    while new:
        found |= new
        files = (Path(f"/proc/{pid}/task/{pid}/children") for pid in new)
        new = {int(word) for file in files if file.exists() for word in file.read_text().split()}
    return found


def _holders(place: Path) -> list[str]:
    """Processes of the whole machine that have anything in `place` open."""
    found = []
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(place) in str(link.readlink()):
                found.append(f"{link} {(link.parent.parent / 'cmdline').read_bytes()!r}")
        except OSError:
            continue
    return found


async def test_kills_during_starts_and_stops_lose_no_file_and_leave_nothing(
    place: Path,
) -> None:
    """With those in containers fifty; BASCULE_TEST_KILLS says another number."""
    hub = Serving(place, {"BASCULE_SPAWNERS": "local"})
    try:
        await Ordeal(hub, LocalVictims(), kills=38).undergo()
    except BaseException:
        print(hub.said())  # noqa: T201
        raise
    finally:
        await hub.stop()
    assert await asyncio.to_thread(_holders, place) == []
    mounts = await asyncio.to_thread(Path("/proc/self/mountinfo").read_text)
    assert str(place) not in mounts
