"""What counts as activity in a session, and what does not."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bascule.sandbox.session.activity import ActivityMonitor
from bascule.sandbox.session.processes import SessionProcesses, command, holders

from .running import launch_in, running

BUSY = "import time\nwhile time.process_time() < 0.4: pass"


def activity(tmp_path: Path, processes: SessionProcesses) -> ActivityMonitor:
    return ActivityMonitor(
        processes, keystroke_file=tmp_path / "keystroke", last_action=lambda: None
    )


def test_child_processes_belong_to_their_session() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        found = SessionProcesses(root=os.getpid(), is_isolated=False).current()
        child.kill()

    assert {os.getpid(), child.pid} <= found.keys()
    assert found[child.pid].parent == os.getpid()
    assert 1 not in found


def test_in_its_own_namespaces_every_process_belongs_to_the_session() -> None:
    assert 1 in SessionProcesses(root=os.getpid(), is_isolated=True).current()


def test_server_processes_are_hidden_but_not_the_programs_they_run_for_users(
    tmp_path: Path,
) -> None:
    """As VS Code is, whose terminals are people's own."""
    processes = SessionProcesses(root=os.getpid(), is_isolated=False)
    # A copy elsewhere: Debian has its Python in the same directory as sleep.
    other = shutil.copy(shutil.which("sleep") or "sleep", tmp_path)
    script = f"import subprocess; subprocess.run([{other!r}, '60'])"
    with subprocess.Popen([sys.executable, "-c", script]) as server:
        while not (below := [p for p in processes.current().values() if p.parent == server.pid]):
            pass
        while "sleep" not in command(below[0].pid):
            pass
        show = processes.hide(server.pid, below=os.path.dirname(os.path.realpath(sys.executable)))
        found = processes.current()
        hidden = processes.is_hidden(server.pid, found), processes.is_hidden(below[0].pid, found)
        show()
        shown = processes.is_hidden(server.pid, found)
        os.kill(below[0].pid, 9)
        server.kill()

    assert (hidden, shown) == ((True, False), False)


def test_the_process_that_holds_a_socket_is_found() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        inode = os.fstat(server.fileno()).st_ino

        assert holders({inode, 1}, {os.getpid()}) == {inode: os.getpid()}


@pytest.mark.slow
def test_reported_cpu_time_never_decreases(tmp_path: Path) -> None:
    """Also when the process that used it has ended."""
    processes = SessionProcesses(root=os.getpid(), is_isolated=False)
    asked = activity(tmp_path, processes)
    before = asked.read()["cpu_seconds"]
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        during = asked.read()["cpu_seconds"]
    after = asked.read()["cpu_seconds"]

    assert 0.25 < during - before < 2
    assert during <= after < during + 0.25


def test_the_last_editor_keystroke_is_the_time_its_file_was_touched(tmp_path: Path) -> None:
    asked = activity(tmp_path, SessionProcesses(root=-1, is_isolated=False))
    silent = asked.read()["last_keystroke"]
    (tmp_path / "keystroke").touch()
    os.utime(tmp_path / "keystroke", (5000.0, 5000.0))

    assert silent is None
    assert asked.read()["last_keystroke"] == 5000.0


@pytest.mark.slow
async def test_actions_count_as_activity_but_status_requests_do_not(
    tmp_path: Path,
) -> None:
    async with running(launch_in(tmp_path)) as session:
        never = await session.get("/session/activity")
        began = time.time()
        await session.act("sleep 600 & echo started")
        ended = time.time()
        for _ in range(3):
            await session.get("/session/ports")
            await session.get("/alive")
        told = await session.get("/session/activity")

    assert never["last_action"] is None
    assert began <= told["last_action"] <= ended + 1  # noted once it is answered
    assert told["processes"] >= 2  # bash and what it runs in the background


@pytest.mark.slow
async def test_a_busy_program_uses_cpu_time_and_a_waiting_one_does_not(
    tmp_path: Path,
) -> None:
    async with running(launch_in(tmp_path)) as session:
        await session.act("python3 -m http.server --bind 127.0.0.1 0 >/dev/null 2>&1 &")
        while not (await session.get("/session/ports"))["ports"]:
            await asyncio.sleep(0.05)  # it starts; then it waits
        before = (await session.get("/session/activity"))["cpu_seconds"]
        await asyncio.sleep(1)
        waiting = (await session.get("/session/activity"))["cpu_seconds"]
        await session.act(f"python3 -c '{BUSY}'")
        working = (await session.get("/session/activity"))["cpu_seconds"]

    assert waiting - before < 0.05
    assert working - waiting > 0.3


@pytest.mark.slow
async def test_input_typed_into_a_session_terminal_counts_as_a_keystroke(tmp_path: Path) -> None:
    async with running(launch_in(tmp_path)) as session:
        terminal = (await session.act("tty"))["content"].strip()
        fresh = (await session.get("/session/activity"))["last_keystroke"]
        await session.act("read -r line; echo got $line", timeout=0.3, blocking=True)
        os.utime(terminal, (0, 0))  # the kernel notes no second keystroke within 8 seconds
        await asyncio.sleep(1.1)  # it notes seconds
        await session.act("hello", is_input=True)
        typed = (await session.get("/session/activity"))["last_keystroke"]

    assert fresh is None
    assert time.time() - typed < 20
