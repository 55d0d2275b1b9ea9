"""The tmux kind of shell: the contract, and what is its own."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bascule.core.actions import CmdRun
from bascule.core.contracts import Shell
from bascule.core.errors import InvalidSetting, MissingTool, SandboxStartFailed
from bascule.sandbox.process_table import exists
from bascule.sandbox.shell.settings import ShellSettings
from bascule.sandbox.shell.shells import Shells
from bascule.sandbox.shell.tmux import TmuxShell
from tests.contracts.shell import ShellSuite, read_on_until, run, sleepers, started, typed

SERVER = """
import asyncio, sys
from pathlib import Path
from bascule.core.actions import CmdRun
from bascule.sandbox.shell.settings import ShellSettings
from bascule.sandbox.shell.shells import Shells

async def main():
    working_dir, state_dir, keep_for, *commands = sys.argv[1:]
    settings = ShellSettings(
        working_dir=Path(working_dir), kind="tmux", state_dir=Path(state_dir),
        keep_for=float(keep_for), soft_timeout=5,
    )
    shells = Shells(settings)
    await shells.restore()
    for command in commands[:-1]:
        seen = await shells.run(CmdRun(command, timeout=0.2))
        while seen.metadata.state == "running" and not seen.content.startswith("told"):
            seen = await shells.run(CmdRun("", timeout=0.2))
    print("ready", flush=True)
    for command in commands[-1:]:
        await shells.run(CmdRun(command, blocking=True))
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
async def shells(tmp_path: Path) -> AsyncIterator[Shells]:
    settings = ShellSettings(working_dir=tmp_path, soft_timeout=2.0, log_limit=4 << 20, kind="tmux")
    async with Shells(settings) as shells:
        yield shells


@pytest.fixture
async def shell(shells: Shells) -> Shell:
    return shells.open("main")


class TestTmuxShell(ShellSuite):
    pass


@pytest.fixture
async def state_dir() -> AsyncIterator[Path]:
    """Short, as the name of a socket must be; what a failed test leaves there is ended."""
    with tempfile.TemporaryDirectory(prefix="bsc-") as directory:
        yield Path(directory, "state")
        async with await restored(ShellSettings(state_dir=Path(directory, "state"))):
            pass


@pytest.fixture
def kept(tmp_path: Path, state_dir: Path) -> ShellSettings:
    return ShellSettings(working_dir=tmp_path, kind="tmux", state_dir=state_dir, soft_timeout=5)


async def killed_server(kept: ShellSettings, *commands: str, keep_for: float = 60) -> None:
    """Start a server that runs `commands`, and kill it while the last of them is under way.

    The last command must not be able to end by itself: a server that is still there when it ends
    answers its own caller, and the next server has nothing to tell.
    """
    async with serving(kept, *commands, keep_for=keep_for) as server:
        server.kill()
        await server.wait()


@asynccontextmanager
async def serving(
    kept: ShellSettings, *commands: str, keep_for: float = 60
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A server with the last of `commands` under way, which prints what says so to a FIFO `sign`.

    Reading the FIFO waits for that.
    """
    sign = kept.working_dir / "sign"
    sign.unlink(missing_ok=True)
    os.mkfifo(sign)
    server = await ready_server(kept, *commands, keep_for=keep_for)
    assert await asyncio.to_thread(sign.read_text) == "under way\n"
    try:
        yield server
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()


async def ready_server(
    kept: ShellSettings, *commands: str, keep_for: float = 60
) -> asyncio.subprocess.Process:
    """A server that has restored its shells and starts the last of `commands`.

    Each earlier command has ended, or has printed "told", and the server has answered with it.
    """
    server = await new_server(kept, *commands, keep_for=keep_for)
    assert server.stdout is not None
    assert await server.stdout.readline() == b"ready\n"
    return server


async def new_server(
    kept: ShellSettings, *commands: str, keep_for: float = 60
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVER, str(kept.working_dir), str(kept.state_dir), str(keep_for)),
        *commands,
        stdout=subprocess.PIPE,
    )


@asynccontextmanager
async def ended_bash(kept: ShellSettings) -> AsyncIterator[None]:
    """Waits at its end until the bash of the shell `main` has ended."""
    assert kept.state_dir is not None
    record = json.loads((kept.state_dir / "main.state").read_bytes())
    bash = os.pidfd_open(record["bash"]["pid"])
    try:
        yield
        await asyncio.to_thread(select.select, [bash], [], [])
    finally:
        os.close(bash)


async def tmux(kept: ShellSettings, command: str) -> None:
    call = ("tmux", "-S", f"{kept.state_dir}/tmux", command)
    await (await asyncio.create_subprocess_exec(*call, stdout=subprocess.DEVNULL)).wait()


GO = "echo under way > sign"


def numbers(last: int) -> bytes:
    return b"".join(b"%d\n" % n for n in range(1, last + 1))


async def restored(kept: ShellSettings) -> Shells:
    shells = Shells(kept)
    await shells.restore()
    return shells


@pytest.mark.slow
async def test_a_pane_closed_by_an_attached_user_is_replaced_by_a_new_shell(
    shells: Shells,
) -> None:
    await shells.run(CmdRun("cd /; x=1"))
    host = shells._host
    close = ("tmux", "-S", str(host.socket), "kill-pane", "-t", host.panes["main"].id)
    await (await asyncio.create_subprocess_exec(*close)).wait()
    for _ in range(2):
        seen = await shells.run(CmdRun("echo $x. $PWD"))
        if seen.content:  # the first may still have been given to the one that was closing
            break
    assert seen.content == ". /\n"
    assert (await shells.run(CmdRun("echo again"))).content == "again\n"


async def kill_tmux(shells: Shells) -> None:
    """As somebody does who thinks it is theirs."""
    command = ("tmux", "-S", str(shells._host.socket), "kill-server")
    await (await asyncio.create_subprocess_exec(*command)).wait()


@pytest.mark.slow
@pytest.mark.parametrize("prelude", ["", "trap '' HUP; "])
async def test_a_killed_tmux_is_replaced_with_a_new_shell(shells: Shells, prelude: str) -> None:
    await shells.run(CmdRun(f"{prelude}cd /; x=1"))
    await shells.run(CmdRun("true", shell="other"))
    for _ in range(2):
        await kill_tmux(shells)
        seen = await shells.run(CmdRun(f"{prelude}echo $x. $PWD"))
        if seen.metadata.shell_ended:  # it was still given to the one that was killed
            seen = await shells.run(CmdRun(f"{prelude}echo $x. $PWD"))

        assert seen.content == ". /\n"
        assert seen.metadata.new_shell
        assert "This is a new shell" in seen.metadata.suffix
        assert (await shells.run(CmdRun("x=2; echo again"))).content == "again\n"
    assert (await shells.run(CmdRun("echo here", shell="other"))).content == "here\n"


@pytest.mark.slow
async def test_a_command_whose_tmux_is_killed_returns_its_output(
    shells: Shells,
) -> None:
    kill = f"tmux -S {shells._host.socket} kill-server"
    mark = f"61{os.getpid()}"
    seen = await shells.run(CmdRun(f"echo before; {kill}; sleep {mark}", timeout=30))

    assert seen.content == "before\n"
    assert seen.metadata.shell_ended
    while sleepers(mark):  # the kernel ends it when its terminal is gone, which takes a moment
        await asyncio.sleep(0.01)
    after = await shells.run(CmdRun("echo after"))
    assert (after.content, after.metadata.new_shell) == ("after\n", True)


@pytest.mark.slow
async def test_a_program_that_missed_the_hangup_is_ended_after_bash(
    shells: Shells, tmp_path: Path
) -> None:
    """A process that bash has just forked has bash's handler of SIGHUP until it executes its
    program, so it may lose the signal. This one starts its program once bash has ended."""
    kill = f"tmux -S {shells._host.socket} kill-server"
    pid = tmp_path / "pid"
    wait_for_end = "while kill -0 $$ 2>/dev/null; do :; done"
    command = (
        f"trap '' HUP; echo $BASHPID > {pid}; {kill}; {wait_for_end}; trap - HUP; exec sleep 900"
    )
    seen = await shells.run(CmdRun(f"({command})", timeout=30))

    assert seen.metadata.shell_ended
    while exists(int(pid.read_text())):
        await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_program_that_bash_started_after_its_terminal_was_gone_is_ended(
    shells: Shells,
) -> None:
    shell = shells.open("main")
    mark = f"62{os.getpid()}"
    await started(shell, f"trap : HUP; echo ready; cat; sleep {mark}")
    # Without letting the loop go on, so that bash is not killed before it starts the program.
    subprocess.run(["tmux", "-S", shells._host.socket, "kill-server"], check=True)
    while not sleepers(mark):
        pass

    assert (await run(shell, "")).metadata.shell_ended
    while sleepers(mark):
        await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_no_note_offers_attaching_to_a_closed_terminal(shells: Shells) -> None:
    shell = shells.open("main")
    assert isinstance(shell, TmuxShell)
    await shell.run(CmdRun("true"))
    shell._is_attended = True
    bash, terminal = shell._bash, Path(shells._host.panes["main"].terminal)
    # Without letting the loop go on, so that nobody has heard of it yet.
    subprocess.run(["tmux", "-S", shells._host.socket, "kill-server"], check=True)
    while terminal.exists():
        pass
    shell._invite()
    assert shell._bash is not bash

    assert (await shell.run(CmdRun("echo here"))).content == "here\n"


@pytest.mark.slow
async def test_a_tmux_killed_without_a_server_loses_only_the_shell(
    kept: ShellSettings,
) -> None:
    await killed_server(kept, "x=1", f"echo seen; {GO}; sleep 60")
    await tmux(kept, "list-panes")  # by its answer tmux has passed on what was printed before
    await tmux(kept, "kill-server")
    async with await restored(kept) as shells:
        seen = await shells.run(CmdRun(""))
        after = await shells.run(CmdRun("echo $x."))

    assert seen.content == "seen\n"
    assert seen.metadata.shell_ended
    assert (after.content, after.metadata.new_shell) == (".\n", True)


@pytest.mark.slow
async def test_the_next_server_reads_output_of_a_shell_that_ended_with_its_tmux(
    kept: ShellSettings, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    command = f"{GO}; read < go; echo seen; {GO}; sleep 60"
    async with serving(kept, command) as server, ended_bash(kept):
        server.send_signal(signal.SIGSTOP)  # it reads nothing of what follows
        (tmp_path / "go").write_text("go\n")
        await asyncio.to_thread((tmp_path / "sign").read_text)
        server.kill()
        await server.wait()
        await tmux(kept, "list-panes")  # by its answer tmux has passed on what was printed before
        await tmux(kept, "kill-server")
    async with await restored(kept) as shells:
        seen = await shells.run(CmdRun(""))

    assert (seen.content, seen.metadata.shell_ended) == ("seen\n", True)


@pytest.mark.slow
async def test_the_next_server_reads_a_command_to_its_end_after_a_kill(
    kept: ShellSettings, tmp_path: Path
) -> None:
    command = f"echo before; {GO}; read < go; seq 1 5000; word=kept; (exit 7)"
    os.mkfifo(tmp_path / "go")
    await killed_server(kept, "cd /tmp; cd -; x=1", command)
    async with await restored(kept) as shells:
        assert shells.names() == ["main"]
        shell = shells.get("main")
        assert shell.is_running
        (tmp_path / "go").write_text("go\n")
        answer = await run(shell, "")
        expected = "before\n" + numbers(5000).decode()
        assert (answer.content, answer.exit_code) == (expected, 7)
        meta = answer.metadata
        assert shell.log.read(meta.log_start, meta.log_end).decode() == expected
        assert (await run(shell, "echo $? $x $word")).content == "7 1 kept\n"


@pytest.mark.slow
async def test_output_and_exit_code_produced_without_a_server_are_kept(
    kept: ShellSettings, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    os.mkfifo(tmp_path / "done")
    # Bash runs the hook before its next prompt, so after it has reported the end.
    hook = "PROMPT_COMMAND='unset PROMPT_COMMAND; echo x > done'"
    await killed_server(kept, f"{hook}; {GO}; read < go; seq 1 20000; (exit 3)")
    (tmp_path / "go").write_text("go\n")
    await asyncio.to_thread((tmp_path / "done").read_text)
    async with await restored(kept) as shells:
        shell = shells.get("main")
        answer = await run(shell, "")
        meta = answer.metadata
        assert shell.log.read(meta.log_start, meta.log_end) == numbers(20_000)
        assert answer.exit_code == 3


@pytest.mark.slow
async def test_a_server_killed_during_output_loses_and_repeats_nothing(
    kept: ShellSettings, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    await killed_server(kept, f"{GO}; read < go; seq 1 300000; echo the end")
    (tmp_path / "go").write_text("go\n")
    assert kept.state_dir is not None
    log = kept.state_dir / "main.log"
    for size in (1, 500_000, 1_500_000):
        server = await new_server(kept)
        while log.stat().st_size < size:
            await asyncio.sleep(0.001)
        server.kill()
        await server.wait()
    async with await restored(kept) as shells:
        shell = shells.get("main")
        meta = (await run(shell, "")).metadata
        printed = shell.log.read(meta.log_start, meta.log_end)
        assert meta.state == "done"
        assert printed == numbers(300_000) + b"the end\n"


@pytest.mark.slow
async def test_output_returned_before_the_server_was_killed_is_not_repeated(
    kept: ShellSettings, tmp_path: Path
) -> None:
    for name in ("more", "sign", "go"):
        os.mkfifo(tmp_path / name)
    command = f"echo told; read < more; echo new; {GO}; read < go; echo last"
    server = await ready_server(kept, command, "")  # the second call only reads on
    (tmp_path / "more").write_text("more\n")
    await asyncio.to_thread((tmp_path / "sign").read_text)
    server.kill()
    await server.wait()
    async with await restored(kept) as shells:
        (tmp_path / "go").write_text("go\n")
        assert (await run(shells.get("main"), "")).content == "new\nlast\n"


@pytest.mark.slow
async def test_the_next_server_can_type_into_and_interrupt_a_program(
    kept: ShellSettings,
) -> None:
    await killed_server(kept, f"{GO}; read line; echo got $line; sleep 60")
    async with await restored(kept) as shells:
        shell = shells.get("main")
        answer = await typed(shell, "typed", timeout=0.1)
        await read_on_until(shell, "got typed\n", answer.content)
        assert (await typed(shell, "C-c")).exit_code == 130
        assert (await run(shell, "echo fine")).content == "fine\n"


@pytest.mark.slow
async def test_a_shell_that_ended_without_a_server_reports_its_exit_status(
    kept: ShellSettings, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    async with serving(kept, f"{GO}; read < go; cd /; exit 4") as server, ended_bash(kept):
        server.kill()
        await server.wait()
        (tmp_path / "go").write_text("go\n")
    async with await restored(kept) as shells:
        shell = shells.get("main")
        answer = await run(shell, "")
        assert (answer.exit_code, answer.metadata.shell_ended) == (4, True)
        after = await run(shell, "pwd")
        assert after.metadata.new_shell


@pytest.mark.slow
async def test_closing_the_next_server_leaves_no_process(kept: ShellSettings) -> None:
    mark = f"66{os.getpid()}"
    await killed_server(kept, f"setsid sleep {mark}1 & {GO}; sleep {mark}2")
    while sleepers(mark) != {f"{mark}1", f"{mark}2"}:
        await asyncio.sleep(0.01)
    async with await restored(kept):
        pass
    assert sleepers(mark) == set()
    assert kept.state_dir is not None
    assert not kept.state_dir.exists()


@pytest.mark.slow
async def test_abandoned_tmux_shells_are_ended(kept: ShellSettings) -> None:
    mark = f"65{os.getpid()}"
    await killed_server(kept, f"{GO}; sleep {mark}", keep_for=0.3)
    assert kept.state_dir is not None
    async with asyncio.timeout(10):
        while sleepers(mark) or kept.state_dir.exists():
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_server_without_tmux_shells_ends_existing_ones(
    kept: ShellSettings, tmp_path: Path
) -> None:
    mark = f"64{os.getpid()}"
    await killed_server(kept, f"{GO}; sleep {mark}")
    plain = ShellSettings(working_dir=tmp_path, state_dir=kept.state_dir)
    async with await restored(plain) as shells:
        assert sleepers(mark) == set()
        assert shells.names() == []
        assert (await shells.run(CmdRun("echo plain"))).content == "plain\n"


@pytest.mark.slow
async def test_tmux_shells_of_an_incompatible_version_are_ended(kept: ShellSettings) -> None:
    mark = f"63{os.getpid()}"
    await killed_server(kept, f"{GO}; sleep {mark}")
    assert kept.state_dir is not None
    file = kept.state_dir / "main.state"
    record = json.loads(file.read_bytes())
    del record["format"], record["stage"]
    file.write_text(json.dumps(record))
    async with await restored(kept) as shells:
        assert sleepers(mark) == set()
        assert (await shells.run(CmdRun("echo new"))).content == "new\n"


@pytest.mark.slow
async def test_tmux_shells_of_a_running_server_are_not_taken_over(kept: ShellSettings) -> None:
    async with serving(kept, f"{GO}; sleep 60") as server:
        with pytest.raises(SandboxStartFailed, match="another server"):
            async with await restored(kept):
                pass
        assert server.returncode is None
    async with await restored(kept) as shells:
        assert shells.get("main").is_running


@pytest.mark.slow
async def test_a_killed_keeper_ends_tmux_and_is_replaced(tmp_path: Path) -> None:
    settings = ShellSettings(working_dir=tmp_path, soft_timeout=5, kind="tmux")
    async with Shells(settings) as shells:
        keeper = int((await shells.run(CmdRun("x=1; echo $PPID"))).content)
        await started(shells.get("main"), "echo ready; sleep 60")
        os.kill(keeper, signal.SIGKILL)
        assert (await run(shells.get("main"), "")).metadata.shell_ended
        answer = await shells.run(CmdRun("echo $x."))
        assert (answer.content, answer.metadata.new_shell) == (".\n", True)


async def test_the_kind_of_a_shell_can_be_chosen_by_its_name(tmp_path: Path) -> None:
    settings = ShellSettings(working_dir=tmp_path, kinds={"seen": "tmux"})
    async with Shells(settings) as shells:
        for name in ("main", "seen"):
            assert (await shells.run(CmdRun("echo $TERM", shell=name))).exit_code == 0
        assert [type(shells.get(name)).__name__ for name in shells.names()] == [
            "PtyShell",
            "TmuxShell",
        ]


async def test_a_static_command_has_a_shell_of_its_own(shells: Shells) -> None:
    await shells.run(CmdRun("word=here"))
    assert (await shells.run(CmdRun("echo $word.", is_static=True))).content == ".\n"


async def test_several_shells_share_one_tmux(shells: Shells) -> None:
    names = ("a", "b.c", "b-c", "b_c")
    await asyncio.gather(*(shells.run(CmdRun(f"me={name}", shell=name)) for name in names))
    for name in names:
        assert (await shells.run(CmdRun("echo $me", shell=name))).content == f"{name}\n"
    await shells.close_shell("a")
    assert (await shells.run(CmdRun("echo $me.", shell="a"))).content == ".\n"


async def test_a_missing_tmux_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with Shells(ShellSettings(working_dir=tmp_path, kind="tmux")) as shells:
        with pytest.raises(MissingTool, match="apt-get install tmux"):
            await shells.run(CmdRun("true"))


async def test_a_directory_path_too_long_for_a_socket_is_reported(tmp_path: Path) -> None:
    settings = ShellSettings(working_dir=tmp_path, kind="tmux", state_dir=tmp_path / ("x" * 100))
    async with Shells(settings) as shells:
        with pytest.raises(InvalidSetting, match="too long"):
            await shells.run(CmdRun("true"))
