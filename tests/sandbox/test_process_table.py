"""What `/proc` tells about processes that are there, that have ended, and that never were."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from bascule.sandbox import process_table
from bascule.sandbox.process_table import all_processes, process_info, usage_of, with_descendants

NEVER = 2**22 + 1
"""Above the highest PID that Linux gives."""


def test_a_process_with_any_name_is_parsed(tmp_path: Path) -> None:
    program = tmp_path / "a) Z 1"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as child:
        found = process_info(child.pid)
        child.kill()

    assert found is not None
    assert (found.pid, found.parent, found.session) == (child.pid, os.getpid(), os.getsid(0))
    assert found.state in "RSD"


def test_a_zombie_is_listed_only_on_request() -> None:
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

        assert process_info(child.pid) is None
        assert child.pid not in all_processes()
        assert all_processes(with_zombies=True)[child.pid].is_zombie
        assert process_table.exists(child.pid)
        assert process_table.arguments(child.pid) == []


def test_a_stopped_process_is_alive() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        found = process_info(child.pid)
        child.kill()

    assert found is not None
    assert found.is_stopped


def test_the_terminal_and_its_foreground_group_are_known() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("cat", ["cat"])
    try:
        os.write(terminal, b"ready\n")
        printed = b""
        while printed.count(b"ready") < 2:  # once by the terminal, once by cat, which has started
            printed += os.read(terminal, 100)
        found = process_info(pid)
        name = process_table.descriptor(pid, 0)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)

    assert found is not None
    assert found.foreground == found.session == pid
    assert name == f"/dev/pts/{found.terminal}"


def test_descendants_are_found_below_their_root() -> None:
    script = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        below = int(child.stdout.readline())
        found = with_descendants(child.pid, all_processes())
        usage = usage_of(found.values())
        os.kill(below, signal.SIGKILL)
        child.kill()

    assert set(found) == {child.pid, below}
    assert usage.processes == 2
    assert usage.memory_bytes is not None
    assert usage.memory_bytes > 0


def test_arguments_variables_and_paths_of_a_process_are_read(tmp_path: Path) -> None:
    with subprocess.Popen(
        ["cat", "", "-"],
        cwd=tmp_path,
        env={"NAME": "value"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        # Popen returns while the kernel still starts the program; until it runs, its command line
        # and environment are empty.
        child.stdin.write(b"ready\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"ready\n"
        assert process_table.arguments(child.pid) == [b"cat", b"", b"-"]
        assert process_table.environment(child.pid) == [b"NAME=value"]
        assert process_table.directory(child.pid) == str(tmp_path)
        assert any(name.startswith("pipe:") for name in process_table.descriptors(child.pid))
        assert process_table.pid_namespace(child.pid) == process_table.pid_namespace(os.getpid())
        child.kill()


def test_a_process_that_does_not_exist_has_nothing() -> None:
    assert process_info(NEVER) is None
    assert not process_table.exists(NEVER)
    assert process_table.arguments(NEVER) == process_table.environment(NEVER) == []
    assert process_table.program(NEVER) is process_table.directory(NEVER) is None
    assert list(process_table.descriptors(NEVER)) == []
    assert process_table.pid_namespace(NEVER) == 0
    assert not process_table.is_first_in_namespace(NEVER)


def test_caught_and_ignored_signals_count_as_handled() -> None:
    for action in ("trap : INT", "trap '' INT"):
        with subprocess.Popen(
            ["bash", "-c", f"{action}; echo; read"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            assert process_table.handles_signal(child.pid, signal.SIGINT)
            assert not process_table.handles_signal(child.pid, signal.SIGTERM)
            child.kill()
    assert not process_table.handles_signal(NEVER, signal.SIGINT)
