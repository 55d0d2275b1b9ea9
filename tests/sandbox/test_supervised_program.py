from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from bascule.sandbox.shell.keeper import Keeper
from bascule.sandbox.supervised_program import SupervisedProgram
from tests.cli.processes import TIMEOUT, ended

pytestmark = pytest.mark.slow


@pytest.fixture
async def keeper() -> AsyncIterator[Keeper]:
    async with Keeper() as keeper:
        yield keeper


async def bash(keeper: Keeper, script: str, cwd: Path) -> SupervisedProgram:
    program = SupervisedProgram(keeper)
    await program.start(["/bin/bash", "-c", script], env={"PATH": "/bin:/usr/bin"}, cwd=cwd)
    return program


async def test_a_line_of_program_output_can_be_awaited(keeper: Keeper, tmp_path: Path) -> None:
    async with await bash(keeper, "echo one; echo port 80; sleep 600", tmp_path) as program:
        assert (await program.wait_for_output(r"port (\d+)"))[1] == "80"


async def test_a_program_that_exits_before_the_awaited_line_raises_its_output(
    keeper: Keeper, tmp_path: Path
) -> None:
    async with await bash(keeper, "echo no luck >&2; exit 3", tmp_path) as program:
        with pytest.raises(EOFError, match="no luck"):
            await program.wait_for_output("never")

        assert await program.ended == 3


async def test_closing_a_program_ends_its_children(keeper: Keeper, tmp_path: Path) -> None:
    script = "(trap '' HUP TERM; sleep 600) & echo child $!; wait"
    program = await bash(keeper, script, tmp_path)
    child = (await program.wait_for_output(r"child (\d+)"))[1]
    await program.aclose()

    assert ended(int(child))


async def test_a_supervised_program_has_an_empty_stdin(keeper: Keeper, tmp_path: Path) -> None:
    async with await bash(keeper, "read x; echo got $?", tmp_path) as program:
        assert (await program.wait_for_output(r"got (\d)"))[1] == "1"


async def test_an_unknown_orphan_is_reaped(keeper: Keeper, tmp_path: Path) -> None:
    script = "bash -c 'setsid sleep 600 & echo orphan $!'; exec sleep 600"
    async with await bash(keeper, script, tmp_path) as program:
        orphan = psutil.Process(int((await program.wait_for_output(r"orphan (\d+)"))[1]))
        os.kill(orphan.pid, signal.SIGKILL)

        await asyncio.to_thread(orphan.wait, TIMEOUT)  # a zombie would not be gone
