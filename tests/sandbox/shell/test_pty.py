"""The pseudo-terminal kind of shell: the contract, and what is its own."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bascule.core.contracts import Shell
from bascule.sandbox import process_table
from bascule.sandbox.shell.pty import PtyShell
from bascule.sandbox.shell.settings import ShellSettings
from bascule.sandbox.shell.shells import Shells
from tests.contracts.shell import ShellSuite, run, started, typed


@pytest.fixture
async def shells(tmp_path: Path) -> AsyncIterator[Shells]:
    settings = ShellSettings(working_dir=tmp_path, soft_timeout=2.0, log_limit=4 << 20)
    async with Shells(settings) as shells:
        yield shells


@pytest.fixture
async def shell(shells: Shells) -> Shell:
    return shells.open("main")


class TestPtyShell(ShellSuite):
    pass


@pytest.mark.slow
async def test_exec_of_a_shell_is_detected_even_if_it_loads_slowly(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(shell, "true")
    looks = 0
    read = process_table.arguments

    def arguments(pid: int) -> list[bytes]:
        nonlocal looks
        looks += 1
        return read(pid) if looks > 3 else []

    monkeypatch.setattr(process_table, "arguments", arguments)

    assert (await run(shell, "exec bash", blocking=True)).metadata.state == "done"


@pytest.fixture
async def pressed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a key is pressed in the shell."""
    await run(shell, "true")
    assert isinstance(shell, PtyShell)
    assert shell._bash is not None
    event = asyncio.Event()
    press = shell._bash.press

    def press_and_set(key: str) -> int | None:
        event.set()
        return press(key)

    monkeypatch.setattr(shell._bash, "press", press_and_set)
    return event


@pytest.mark.slow
async def test_ctrl_c_ends_a_loop_although_its_program_has_just_ended(
    shell: Shell, pressed: asyncio.Event, tmp_path: Path
) -> None:
    """Bash is stopped here. On a busy machine, bash learns late that its program has ended too."""
    pid = int((await run(shell, "echo $$")).content)
    os.mkfifo(tmp_path / "go")
    await started(shell, "echo ready; while cat go; do :; done")
    writer = await asyncio.to_thread(os.open, tmp_path / "go", os.O_WRONLY)
    os.kill(pid, signal.SIGSTOP)
    os.close(writer)
    while any(process_table.process_info(child) for child in process_table.children(pid)):
        await asyncio.sleep(0.01)  # until no program or only a zombie is left
    answer = asyncio.create_task(typed(shell, "C-c"))
    await pressed.wait()
    os.kill(pid, signal.SIGCONT)

    assert (await answer).exit_code == 130


@pytest.mark.slow
async def test_ctrl_d_ends_the_input_of_one_program_only(
    shell: Shell, pressed: asyncio.Event, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    await started(shell, "echo ready; read < go; cat; echo first; cat; echo second")
    writer = await asyncio.to_thread(os.open, tmp_path / "go", os.O_WRONLY)
    answer = asyncio.create_task(typed(shell, "C-d", timeout=1))
    await pressed.wait()
    os.close(writer)

    assert (await answer).metadata.state == "running"
    assert (await typed(shell, "C-d")).content.endswith("second\n")
