from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bascule.core.actions import CmdRun
from bascule.core.contracts import OutputProgress
from bascule.sandbox.server.stream import Backlog, Frame, Skipped, Watch
from bascule.sandbox.shell.settings import ShellSettings
from bascule.sandbox.shell.shells import Shells


@pytest.fixture
async def shells(tmp_path: Path) -> AsyncIterator[Shells]:
    async with Shells(ShellSettings(working_dir=tmp_path, log_limit=64 << 10)) as shells:
        yield shells


async def drain(source: Backlog | Watch) -> list[Frame]:
    source.finish()
    return [frame async for frame in source.items() if frame is not None]


def text(frames: list[Frame]) -> bytes:
    return b"".join(frame.data for frame in frames if isinstance(frame, OutputProgress))


async def test_adjacent_pieces_of_output_are_sent_as_one_frame() -> None:
    backlog = Backlog(1000)
    for piece in (
        OutputProgress("a", 0, b"one"),
        OutputProgress("a", 3, b"two"),
        OutputProgress("b", 0, b"other"),
    ):
        backlog.take(piece)
    backlog.take(OutputProgress("a", 6, b"three"))

    assert await drain(backlog) == [
        OutputProgress("a", 0, b"onetwo"),
        OutputProgress("b", 0, b"other"),
        OutputProgress("a", 6, b"three"),
    ]


async def test_a_slow_watcher_gets_a_gap_for_each_shell_it_missed() -> None:
    backlog = Backlog(10)
    for offset in (0, 4, 8):
        backlog.take(OutputProgress("a", offset, b"aaaa"))
    backlog.take(OutputProgress("b", 100, b"bbbbbbbb"))

    assert await drain(backlog) == [Skipped("a", 0, 12), OutputProgress("b", 100, b"bbbbbbbb")]


async def test_a_piece_larger_than_the_buffer_is_reported_as_a_gap() -> None:
    backlog = Backlog(10)
    backlog.take(OutputProgress("a", 0, bytes(11)))
    assert await drain(backlog) == [Skipped("a", 0, 11)]


async def test_the_stream_sends_a_heartbeat_during_silence() -> None:
    backlog = Backlog(10)
    frames = backlog.items(heartbeat=0.001)
    assert await anext(frames) is None
    backlog.take(OutputProgress("a", 0, b"x"))
    assert await anext(frames) == OutputProgress("a", 0, b"x")


async def test_a_watch_sees_new_output_of_all_shells(shells: Shells) -> None:
    await shells.run(CmdRun("echo before"))
    watch = Watch(shells, lag=1 << 20, shell=None, start=None)
    with watch.open():
        await shells.run(CmdRun("echo here"))
        await shells.run(CmdRun("echo there", shell="other"))
    await shells.run(CmdRun("echo after"))

    frames = await drain(watch)
    assert text(frames) == b"here\nthere\n"
    assert [frame.shell for frame in frames] == ["main", "other"]


async def test_a_watch_of_one_shell_sees_no_other(shells: Shells) -> None:
    watch = Watch(shells, lag=1 << 20, shell="other", start=None)
    with watch.open():
        await shells.run(CmdRun("echo here"))
        await shells.run(CmdRun("echo there", shell="other"))
    assert text(await drain(watch)) == b"there\n"


async def test_a_watch_resumes_without_gap_or_repetition(shells: Shells) -> None:
    await shells.run(CmdRun("seq 1000"))
    whole = shells.get("").log.read(0)
    watch = Watch(shells, lag=1 << 20, shell="", start=100)
    with watch.open():
        await shells.run(CmdRun("echo more"))

    frames = await drain(watch)
    assert text(frames) == whole[100:] + b"more\n"
    assert frames[0].offset == 100


async def test_a_watch_that_resumes_too_late_gets_a_gap(shells: Shells) -> None:
    await shells.run(CmdRun("head -c 300000 /dev/zero | tr '\\0' x"))
    log = shells.get("").log
    assert log.start > 0
    watch = Watch(shells, lag=1 << 20, shell="", start=10)

    gone, *frames = await drain(watch)
    assert gone == Skipped("main", 10, log.start)
    assert text(frames) == log.read(log.start)


async def test_a_watch_waits_for_a_shell_that_does_not_exist_yet(shells: Shells) -> None:
    watch = Watch(shells, lag=1 << 20, shell="later", start=0)
    with watch.open():
        await shells.run(CmdRun("echo made", shell="later"))
    assert text(await drain(watch)) == b"made\n"


async def test_frames_are_sent_while_the_command_runs(shells: Shells) -> None:
    watch = Watch(shells, lag=1 << 20, shell=None, start=None)
    with watch.open():
        command = asyncio.create_task(shells.run(CmdRun("echo first; read line; echo $line")))
        frame = await anext(watch.items())
        assert isinstance(frame, OutputProgress)
        assert frame.data.startswith(b"first")
        await shells.run(CmdRun("second", is_input=True))
        assert (await command).exit_code == 0
