"""The keeper: nothing outlives a sandbox, however the sandbox ends."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bascule.core.actions import CmdRun
from bascule.core.errors import SandboxStartFailed
from bascule.sandbox.shell.settings import ShellSettings, find_account
from bascule.sandbox.shell.shells import Shells
from tests.contracts.shell import sleepers

START_AND_WAIT = """
import asyncio, sys
from pathlib import Path
from bascule.core.actions import CmdRun
from bascule.sandbox.shell.settings import ShellSettings
from bascule.sandbox.shell.shells import Shells

async def main():
    shells = Shells(ShellSettings(working_dir=Path(sys.argv[1])))
    mark = sys.argv[2]
    await shells.run(CmdRun(f"sleep {mark}1 & setsid sleep {mark}2 & (nohup sleep {mark}3 &)"))
    await shells.run(CmdRun(f"env -i setsid -f sleep {mark}4; exit", shell="other"))
    await shells.run(CmdRun(f"sleep {mark}5", timeout=0.1, shell="third"))
    print(shells.log_dir, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


EXIT_CALLS = {"x86_64": 60, "aarch64": 93}
"""`exit`, which ends one thread, where Python only has the one that ends all."""


async def until_gone(mark: str, directory: Path) -> None:
    async with asyncio.timeout(10):
        while sleepers(mark) or directory.exists():
            await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_nothing_is_left_when_the_server_is_killed(
    tmp_path: Path, end: signal.Signals
) -> None:
    mark = f"88{os.getpid()}{int(end)}"
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", START_AND_WAIT, str(tmp_path), mark),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert server.stdout is not None
    directory = Path((await server.stdout.readline()).decode().strip())
    while len(sleepers(mark)) < 5:
        await asyncio.sleep(0.01)
    assert directory.is_dir()
    server.send_signal(end)
    await server.wait()
    await until_gone(mark, directory)


async def test_the_keeper_holds_no_copy_of_its_program_open(tmp_path: Path) -> None:
    async with Shells(ShellSettings(working_dir=tmp_path)) as shells:
        await shells.run(CmdRun("true"))
        descriptors = Path(f"/proc/{shells.keeper.pid}/fd")
        links = {each.name: str(each.readlink()) for each in descriptors.iterdir()}

    assert links["0"] == "/dev/null"
    assert [link for link in links.values() if "memfd" in link] == []


HALF_DEAD = """
import ctypes, os, subprocess, sys, threading
subprocess.Popen(["sleep", sys.argv[1]])
threading.Thread(target=threading.Event().wait).start()
print(os.getpid(), flush=True)
ctypes.CDLL(None).syscall({exit}, 0)  # the first thread alone
"""


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine not in EXIT_CALLS, reason="the call's number is not known")
async def test_children_of_a_program_whose_main_thread_exited_end_too(tmp_path: Path) -> None:
    """Such a program is a zombie to look at, and what it started is still its own."""
    mark = f"87{os.getpid()}"
    script = tmp_path / "half_dead.py"
    script.write_text(HALF_DEAD.format(exit=EXIT_CALLS[os.uname().machine]))
    shells = Shells(ShellSettings(working_dir=tmp_path))
    command = f"coproc {sys.executable} {script} {mark}; read -u ${{COPROC[0]}} pid; echo $pid"
    pid = int((await shells.run(CmdRun(command))).content.split()[-1])
    while ") Z " not in Path(f"/proc/{pid}/stat").read_text():
        await asyncio.sleep(0.01)
    assert sleepers(mark)
    directory = shells.log_dir
    await shells.aclose()
    await until_gone(mark, directory)


@pytest.mark.slow
async def test_a_killed_keeper_ends_its_shells_and_is_replaced(tmp_path: Path) -> None:
    async with Shells(ShellSettings(working_dir=tmp_path, soft_timeout=5)) as shells:
        parent = int((await shells.run(CmdRun("x=1; echo $PPID"))).content)
        ready = asyncio.Event()
        shells.subscribe(lambda _: ready.set())
        running = asyncio.create_task(shells.run(CmdRun("echo ready; sleep 60")))
        await ready.wait()
        os.kill(parent, signal.SIGKILL)
        assert (await running).exit_code == 137
        answer = await shells.run(CmdRun("echo $x."))
        assert (answer.content, answer.metadata.new_shell) == (".\n", True)


async def test_a_start_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    async with Shells(ShellSettings(working_dir=tmp_path / "missing")) as shells:
        with pytest.raises(SandboxStartFailed, match="missing"):
            await shells.run(CmdRun("true"))
        (tmp_path / "missing").mkdir()
        assert (await shells.run(CmdRun("true"))).exit_code == 0


async def test_a_start_that_is_cancelled_leaves_no_shell(tmp_path: Path) -> None:
    async with Shells(ShellSettings(working_dir=tmp_path)) as shells:
        await shells.run(CmdRun("true"))
        for moment in range(40):
            name = f"other-{moment}"
            starting = asyncio.create_task(shells.run(CmdRun("true", shell=name)))
            await asyncio.sleep(moment % 10 * 0.0003)  # from before the fork to after the exec
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            answer = await shells.run(CmdRun("echo fine", shell=name))
            assert answer.content == "fine\n"
            await shells.close_shell(name)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start shells as another user")
async def test_shells_run_as_the_requested_account(tmp_path: Path) -> None:
    account = find_account("nobody", None)
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:-2]:
        parent.chmod(parent.stat().st_mode | 0o055)
    settings = ShellSettings(working_dir=tmp_path, account=account)
    async with Shells(settings) as shells:
        answer = await shells.run(CmdRun("id -un; echo hi >/dev/stdout; cat /etc/shadow"))
        assert answer.content.startswith("nobody\nhi\n")
        assert "Permission denied" in answer.content
        assert answer.metadata.username == "nobody"
        await shells.run(CmdRun("sleep 60 & sleep 60", timeout=0.1))


async def test_a_shell_does_not_inherit_signals_the_server_ignores(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        async with Shells(ShellSettings(working_dir=tmp_path)) as shells:
            answer = await shells.run(CmdRun("sh -c 'grep SigIgn /proc/self/status'"))
    finally:
        signal.signal(signal.SIGQUIT, before)
    ignored = int(answer.content.split()[1], 16)
    assert ignored & ~(0b11 << 31) == 0  # 32 and 33 are the C library's own


def test_a_loop_that_ends_while_a_keeper_starts_leaves_no_socket(tmp_path: Path) -> None:
    """Python would complain of it much later, in whatever test runs then."""
    before = {each.fileno() for each in open_sockets()}
    starting: list[asyncio.Task[object]] = []

    async def leave_soon() -> None:
        shells = Shells(ShellSettings(working_dir=tmp_path))
        starting.append(asyncio.create_task(shells.run(CmdRun("true"))))
        while {each.fileno() for each in open_sockets()} <= own:
            await asyncio.sleep(0)

    async def session() -> None:
        own.update(each.fileno() for each in open_sockets())
        await leave_soon()

    own: set[int] = set()
    asyncio.run(session())

    assert {each.fileno() for each in open_sockets()} <= before


def open_sockets() -> list[socket.socket]:
    # `isinstance` would ask a weak proxy for the class of an object that may be gone.
    found = (each for each in gc.get_objects() if issubclass(type(each), socket.socket))
    return [each for each in found if each.fileno() >= 0]
