from __future__ import annotations

import re
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .processes import BASCULE, TIMEOUT, bascule, ended, environment, serving

pytestmark = pytest.mark.slow


@contextmanager
def running(*arguments: str, cwd: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [*BASCULE, "exec", *arguments],
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], TIMEOUT)[0], "nothing was printed"
    return process.stdout.readline()


def test_exec_passes_on_output_and_exit_code(tmp_path: Path) -> None:
    ran = bascule("exec", "echo out; echo err >&2; (exit 3)", cwd=tmp_path)

    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "out\nerr\n", "")


def test_exec_runs_in_the_current_or_the_given_directory(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()

    assert bascule("exec", "pwd", cwd=tmp_path).stdout == f"{tmp_path}\n"
    there = bascule("exec", "--working-dir", "inside", "pwd", cwd=tmp_path)
    assert there.stdout == f"{tmp_path}/inside\n"


def test_exec_passes_several_arguments_unchanged(tmp_path: Path) -> None:
    ran = bascule("exec", "printf", "%s|", "a  b", "$HOME", "--help", "*", cwd=tmp_path)

    assert ran.stdout == "a  b|$HOME|--help|*|"


def test_exit_ends_an_exec_command_without_a_message(tmp_path: Path) -> None:
    ran = bascule("exec", "trap 'echo bye' EXIT; echo hi; exit 3; echo never", cwd=tmp_path)

    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "hi\nbye\n", "")


def test_a_command_may_begin_with_a_dash(tmp_path: Path) -> None:
    (tmp_path / "-v").write_text("#!/bin/sh\necho it ran with $1\n")
    (tmp_path / "-v").chmod(0o755)
    here = environment(PATH=f"{tmp_path}:/usr/bin:/bin")

    assert bascule("exec", "--", "-v", "-x", env=here).stdout == "it ran with -x\n"
    assert bascule("exec", "--", "-v -y", env=here).stdout == "it ran with -y\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--nosuch", "ls"], "No such option '--nosuch'"),
        ([""], "the command is empty"),
        ([" \n"], "the command is empty"),
    ],
)
def test_invalid_exec_arguments_are_usage_errors(
    arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    ran = bascule("exec", *arguments, cwd=tmp_path)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert complaint in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_exec_warns_that_piped_stdin_is_not_passed_on(tmp_path: Path) -> None:
    for piped in (True, False):
        (tmp_path / "file").write_text("in\n")
        with (tmp_path / "file").open() as file:
            process = subprocess.Popen(
                [*BASCULE, "exec", "cat"],
                cwd=tmp_path,
                env=environment(),
                stdin=subprocess.PIPE if piped else file,
                stderr=subprocess.PIPE,
            )
        with process:
            if process.stdin is not None:
                process.stdin.write(b"in\n")
                process.stdin.flush()
            assert process.stderr is not None
            assert b"stdin is not passed on" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT) == 130


def test_exec_does_not_warn_about_empty_stdin(tmp_path: Path) -> None:
    ran = bascule("exec", "sleep 1.2", cwd=tmp_path, input="")

    assert (ran.returncode, ran.stderr) == (0, "")


def test_large_output_is_complete(tmp_path: Path) -> None:
    ran = bascule("exec", "seq 400000", cwd=tmp_path)

    assert ran.stdout == "".join(f"{n}\n" for n in range(1, 400001))


def test_exec_streams_output_and_ctrl_c_interrupts_the_command(tmp_path: Path) -> None:
    command = "bash -c 'trap \"echo caught; exit 9\" INT; echo ready; sleep 60 & wait'"
    with running(command, cwd=tmp_path) as process:
        assert line_of(process) == b"ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)

    assert (process.returncode, out, err) == (9, b"caught\n", b"")


def test_exec_ends_a_command_after_its_timeout(tmp_path: Path) -> None:
    ran = bascule("exec", "--timeout", "0.5", "echo $$; exec sleep 60", cwd=tmp_path)

    assert ran.returncode == 124
    assert (
        ran.stderr
        == "bascule: the command ran longer than 0.5 seconds and was stopped (--timeout)\n"
    )
    assert ended(int(ran.stdout))


def test_exec_ends_the_command_when_its_stdout_is_closed(tmp_path: Path) -> None:
    with running("echo $$; yes", cwd=tmp_path) as process:
        shell = int(line_of(process))
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(TIMEOUT) == 128 + signal.SIGPIPE
        assert process.stderr.read() == b""

    assert ended(shell)


def test_background_processes_end_with_exec(tmp_path: Path) -> None:
    ran = bascule("exec", "sleep 600 & echo $!", cwd=tmp_path)

    pid = int(re.findall(r"^\d+$", ran.stdout, re.MULTILINE)[-1])
    assert ended(pid)


def test_a_remote_sandbox_keeps_state_between_two_exec_calls(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        there = environment(BASCULE_URL=server.url, SESSION_API_KEY=server.key)
        first = bascule("exec", "cd /; export A=1; false", env=there)
        second = bascule("exec", "echo $A $PWD", env=there)
        apart = bascule("exec", "--shell", "other", "echo none$A $PWD", env=there)

    assert first.returncode == 1
    assert second.stdout == "1 /\n"
    assert apart.stdout == f"none {tmp_path}\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--url", "http://127.0.0.1:1", "--key", "k"], "127.0.0.1:1"),
        (
            ["--url", "127.0.0.1:1", "--key", "k"],
            "http://127.0.0.1:1 cannot be reached: nothing listens",
        ),
        (["--url", "ftp://127.0.0.1", "--key", "k"], "is not an http:// or https:// address"),
        (["--url", "http://127.0.0.1:1"], "needs a key"),
        (["--working-dir", "nowhere"], "--working-dir is not a directory: nowhere"),
        (["--shell", "no name"], "cannot name a shell"),
    ],
)
def test_exec_exits_with_125_if_the_command_could_not_start(
    arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    ran = bascule("exec", *arguments, "true", cwd=tmp_path)

    assert ran.returncode == 125
    assert complaint in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_exec_reports_a_wrong_key(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        ran = bascule("exec", "--url", server.url, "--key", "wrong", "true")

    assert ran.returncode == 125
    assert "X-Session-API-Key" in ran.stderr


def test_exec_is_rejected_while_the_shell_is_busy(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        there = environment(BASCULE_URL=server.url, SESSION_API_KEY=server.key)
        with subprocess.Popen(
            [*BASCULE, "exec", "echo; cat"], env=there, stdout=subprocess.PIPE
        ) as first:
            line_of(first)
            second = bascule("exec", "true", env=there)
            first.send_signal(signal.SIGINT)
            first.communicate(timeout=TIMEOUT)

    assert second.returncode == 125
    assert first.returncode == 130
