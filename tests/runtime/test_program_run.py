"""Programs that run to their end, and files that programs read and write."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bascule.core.errors import FileTooLarge, NoSuchPath
from bascule.runtime import LocalRuntime
from bascule.runtime.program_files import read_file, write_file
from bascule.runtime.program_run import run_program
from tests.contracts.programs import ended, sh


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


@pytest.fixture
async def runtime(folder: Path) -> AsyncIterator[LocalRuntime]:
    async with LocalRuntime(folder) as runtime:
        yield runtime


async def test_a_run_has_both_streams_and_the_exit_code(
    runtime: LocalRuntime, folder: Path
) -> None:
    script = "cat; echo err >&2; pwd; echo $WORD; exit 3"
    (folder / "inner").mkdir()
    run = await run_program(runtime, sh(script), stdin=b"in\n", env={"WORD": "w"}, cwd="inner")
    assert run.stdout == f"in\n{folder}/inner\nw\n".encode()
    assert (run.stderr, run.exit_code, run.status, run.timed_out) == (b"err\n", 3, 3, False)
    assert (await run_program(runtime, sh("kill -TERM $$"))).status == 143
    with pytest.raises(NoSuchPath):
        await run_program(runtime, ["no-such-program"])


async def test_stdin_that_is_not_read_does_not_matter(runtime: LocalRuntime) -> None:
    run = await run_program(runtime, ["head", "-c", "1"], stdin=b"x" * (4 << 20))
    assert (run.stdout, run.exit_code) == (b"x", 0)


async def test_output_above_the_limit_is_counted(runtime: LocalRuntime) -> None:
    run = await run_program(runtime, sh("printf 12345; head -c 2000000 /dev/zero"), output_limit=3)
    assert (run.stdout, run.left_out, run.exit_code) == (b"123", 2_000_002, 0)
    exact = await run_program(runtime, sh("printf 123"), output_limit=3)
    assert (exact.stdout, exact.left_out) == (b"123", 0)


async def test_after_its_time_a_program_and_its_children_end(runtime: LocalRuntime) -> None:
    run = await run_program(runtime, sh("sleep 1000 & echo $!; wait"), timeout=0.5)
    assert run.timed_out
    await ended(int(run.stdout))


async def test_cancelling_a_run_ends_the_program(runtime: LocalRuntime, folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    running = asyncio.create_task(run_program(runtime, sh("echo $$ >fifo; exec sleep 1000")))
    pid = int((await run_program(runtime, ["cat", "fifo"])).stdout)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await ended(pid)


async def test_files_are_written_and_read_byte_by_byte(runtime: LocalRuntime) -> None:
    content = bytes(range(256)) * 10_000
    for name in ("deep/er/file", "-n", "a b'$(x)"):
        await write_file(runtime, name, content)
        assert await read_file(runtime, name, limit=len(content)) == content
    await write_file(runtime, "deep/er/file", b"")
    assert await read_file(runtime, "deep/er/file", limit=0) == b""


async def test_files_that_cannot_be_read_or_written_raise_the_users_error(
    runtime: LocalRuntime, folder: Path
) -> None:
    (folder / "directory").mkdir()
    (folder / "file").write_text("four")
    with pytest.raises(FileTooLarge, match="more than 3 bytes"):
        await read_file(runtime, "file", limit=3)
    with pytest.raises(FileNotFoundError, match="missing"):
        await read_file(runtime, "missing", limit=9)
    with pytest.raises(IsADirectoryError, match="directory"):
        await read_file(runtime, "directory", limit=9)
    with pytest.raises(IsADirectoryError, match="directory"):
        await write_file(runtime, str(folder / "directory"), b"x")
    with pytest.raises(NotADirectoryError):
        await read_file(runtime, "file/x", limit=9)
    with pytest.raises(OSError, match=r"File exists|Not a directory"):
        await write_file(runtime, "file/x", b"x")
