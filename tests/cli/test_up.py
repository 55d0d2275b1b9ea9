from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .processes import BASCULE, TIMEOUT, Terminal, at_terminal, bascule, ended, environment

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
CTRL_C, CTRL_D, CTRL_Z, CTRL_BACKSLASH = "\x03", "\x04", "\x1a", "\x1c"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """`bascule up`, at its first prompt. The terminal is wide, so that nothing is wrapped."""
    env = environment(TERM="dumb", COLUMNS="500")
    with at_terminal("up", "--no-editor", cwd=tmp_path, env=env) as terminal:
        terminal.expect(" $ ")
        yield terminal


def enter(terminal: Terminal, line: str) -> None:
    """Type a line and wait for its echo, so that what is expected next is output."""
    terminal.type(f"{line}\r")
    terminal.expect("\r\n")


# At a terminal ------------------------------------------------------------------------------


def test_up_prints_its_url_and_a_key_that_other_commands_can_use(terminal: Terminal) -> None:
    url = re.search(r"http://127\.0\.0\.1:\d+", terminal.seen)
    key = re.search(r"SESSION_API_KEY=(\S+)", terminal.seen)
    assert url is not None
    assert key is not None

    enter(terminal, "export A=here")
    terminal.expect(" $ ")
    there = bascule("exec", "--url", url[0], "echo $A", env=environment(SESSION_API_KEY=key[1]))

    assert there.stdout == "here\n"


def test_commands_run_in_a_persistent_shell(terminal: Terminal, tmp_path: Path) -> None:
    enter(terminal, "pwd; export A=1")
    assert terminal.expect(" $ ").startswith(f"{tmp_path}/workspace\r\n")
    enter(terminal, "cd / && echo a$A")
    assert terminal.expect("/").startswith("a1\r\n")
    terminal.expect(" $ ")


def test_a_status_other_than_0_is_in_the_prompt(terminal: Terminal) -> None:
    enter(terminal, "(exit 7)")
    assert terminal.expect(" $ ").startswith("[7] ")


def test_output_is_streamed_and_ctrl_c_ends_only_the_command(
    terminal: Terminal,
) -> None:
    enter(terminal, "echo be''gun; sleep 60")
    terminal.expect("begun\r\n")
    terminal.type(CTRL_C)
    assert "[130] " in terminal.expect(" $ ")
    enter(terminal, "echo al''ive")
    terminal.expect("alive\r\n")


@pytest.mark.parametrize(("moment", "status"), [("start", 130), ("end", 3)])
def test_ctrl_c_just_after_a_command_starts_or_ends_leaves_the_prompt_usable(
    tmp_path: Path, moment: str, status: int
) -> None:
    """Just after a command was sent, and between its end and the next prompt."""
    program = (sys.executable, "-m", "tests.cli.ctrl_c_prompt")
    env = environment(TERM="dumb", COLUMNS="500", PYTHONPATH=str(PROJECT))
    with at_terminal(moment, cwd=tmp_path, env=env, program=program) as terminal:
        terminal.expect(" $ ")
        enter(terminal, "sleep 60" if moment == "start" else "(exit 3)")
        assert f"[{status}] " in terminal.expect(" $ ")
        enter(terminal, "exit")
        assert terminal.status() == 0


STUBBORN = """\
import signal

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print("begun", flush=True)
while signal.sigwait({signal.SIGINT}):
    print("no", flush=True)
"""
"""Not a trap of bash: that loses an interrupt which comes before the trap of the last has ended."""


def test_the_fourth_ctrl_c_kills_a_command_that_ignores_it(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "workspace" / "stubborn.py").write_text(STUBBORN)
    enter(terminal, f"{sys.executable} stubborn.py")
    terminal.expect("begun\r\n")
    for _ in range(3):
        terminal.type(CTRL_C)
        terminal.expect("no\r\n")
    terminal.type(CTRL_C)
    assert "[137] " in terminal.expect(" $ ")


def test_ctrl_z_stops_a_command_that_can_be_resumed(terminal: Terminal) -> None:
    enter(terminal, "(echo be''gun; sleep 0.1; cat; echo do''ne)")
    terminal.expect("begun\r\n")
    terminal.type(CTRL_Z)
    terminal.expect("[148] ")
    terminal.expect(" $ ")
    enter(terminal, "fg")
    terminal.type(CTRL_D)
    terminal.expect("done\r\n")


def test_lines_typed_while_a_command_runs_are_its_input(terminal: Terminal) -> None:
    enter(terminal, "read -p 'na''me? ' x; echo \"hello $x\"")
    terminal.expect("name? ")
    enter(terminal, "Ann Other")
    terminal.expect("hello Ann Other\r\n")


def test_ctrl_d_ends_what_a_command_reads(terminal: Terminal) -> None:
    enter(terminal, "echo re''ady; wc -l")
    terminal.expect("ready\r\n")
    enter(terminal, "one")
    enter(terminal, "two")
    terminal.type(CTRL_D)
    terminal.expect("2\r\n")


def test_ctrl_c_at_the_prompt_gives_up_the_line(terminal: Terminal) -> None:
    terminal.type("echo 'never")
    terminal.expect("'never")
    terminal.type(CTRL_C)
    terminal.expect(" $ ")
    enter(terminal, "echo do''ne")
    terminal.expect("done\r\n")


def test_ctrl_c_discards_a_multi_line_command(terminal: Terminal) -> None:
    terminal.type("echo 'never\r")
    terminal.expect("> ")
    terminal.type(CTRL_C)
    terminal.expect(" $ ")
    enter(terminal, "echo do''ne")
    terminal.expect("done\r\n")


def test_an_unfinished_command_asks_for_its_next_line(terminal: Terminal) -> None:
    enter(terminal, "for i in 1 2; do")
    terminal.expect("> ")
    enter(terminal, "echo n$i")
    terminal.expect("> ")
    enter(terminal, "done")
    terminal.expect("n1\r\nn2\r\n")


def test_output_without_a_last_newline_does_not_run_into_the_prompt(terminal: Terminal) -> None:
    enter(terminal, "printf par''tial")
    assert terminal.expect(" $ ").startswith("partial\r\n")


def test_job_notices_are_shown_once_and_in_order(terminal: Terminal) -> None:
    enter(terminal, "sleep 60 & echo s''tarted")
    terminal.expect("started")
    terminal.expect(" $ ")
    enter(terminal, "kill %1; wait; echo k''illed")
    terminal.expect("killed")
    terminal.expect(" $ ")
    enter(terminal, "echo n''ext")
    terminal.expect("next")
    terminal.expect(" $ ")
    enter(terminal, "(sleep 0.2; echo late) & echo d''one")
    terminal.expect("done")
    terminal.expect(" $ ")
    enter(terminal, "sleep 0.5; echo o''ver")
    terminal.expect("over")
    terminal.expect(" $ ")

    assert terminal.seen.count("Terminated") == 1
    assert terminal.seen.count("\nlate") == 1
    assert "[background]" not in terminal.seen


def test_background_output_at_the_prompt_is_shown_with_the_next_command(
    terminal: Terminal, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    enter(terminal, f"(cat {tmp_path}/gate; echo said >{tmp_path}/gate) & echo d''one")
    terminal.expect("done")
    terminal.expect(" $ ")
    (tmp_path / "gate").write_text("through\n")
    (tmp_path / "gate").read_text()  # what comes before it is printed by now
    enter(terminal, "echo n''ext")
    terminal.expect("next")
    terminal.expect("[background] through")


def test_the_end_of_the_shell_is_reported_and_a_new_shell_works(terminal: Terminal) -> None:
    enter(terminal, "kill -9 $$")
    terminal.expect("the shell exited with code 137")
    enter(terminal, "echo ne''w")
    terminal.expect("new\r\n")


def test_ctrl_d_exits_up_and_ends_every_process_it_started(terminal: Terminal) -> None:
    pid = background_process(terminal)
    terminal.type(CTRL_D)

    assert terminal.status() == 0
    assert ended(pid)


@pytest.mark.parametrize("word", ["exit", "exit 3"])
def test_leaving_up_after_a_failed_command_exits_with_0(terminal: Terminal, word: str) -> None:
    enter(terminal, "false")
    terminal.expect(" $ ")
    terminal.type(f"{word}\r")

    assert terminal.status() == 0


@pytest.mark.parametrize("start", ["if true; then", "echo 'open"])
def test_ctrl_d_in_an_unfinished_command_shows_the_bash_error_and_a_prompt(
    terminal: Terminal, start: str
) -> None:
    terminal.type(f"{start}\r")
    terminal.expect("> ")
    terminal.type(CTRL_D)
    terminal.expect("unexpected")
    terminal.expect("[2] ")
    terminal.expect(" $ ")
    enter(terminal, "echo still he''re")
    terminal.expect("still here\r\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_ends_up_and_every_process_it_started(
    terminal: Terminal, number: int
) -> None:
    pid = background_process(terminal)
    os.kill(terminal.pid, number)

    assert terminal.status() == 128 + number
    assert ended(pid)


def test_a_killed_up_leaves_no_process(terminal: Terminal) -> None:
    pid = background_process(terminal)
    os.kill(terminal.pid, signal.SIGKILL)

    assert ended(pid)


def background_process(terminal: Terminal) -> int:
    enter(terminal, "nohup sleep 600 >/dev/null 2>&1 & echo p''id=$!.")
    terminal.expect("pid=")
    pid = int(terminal.expect("."))
    terminal.expect(" $ ")
    return pid


# From a file or pipe ------------------------------------------------------------------------


def test_commands_are_read_from_a_pipe_and_up_exits_with_the_last_status(tmp_path: Path) -> None:
    ran = bascule("up", cwd=tmp_path, input="export A=1\n\necho $A\npwd; (exit 4)\n")

    assert ran.stdout == f"1\n{tmp_path}/workspace\n"
    assert ran.returncode == 4
    assert "sandbox" in ran.stderr
    assert "hub" not in ran.stderr


def test_a_multi_line_command_from_a_pipe_runs_as_one_command(tmp_path: Path) -> None:
    script = "cat <<END\na\n  b\nEND\nif true; then\n echo yes\nfi"

    assert bascule("up", cwd=tmp_path, input=script).stdout == "a\n  b\nyes\n"


def test_an_unfinished_command_from_a_pipe_prints_the_bash_error(tmp_path: Path) -> None:
    ran = bascule("up", cwd=tmp_path, input="echo one\necho 'two")

    assert ran.returncode == 2
    assert ran.stdout.startswith("one\n")
    assert "unexpected EOF" in ran.stdout


def test_exit_stops_reading_commands_from_a_pipe(tmp_path: Path) -> None:
    ran = bascule("up", cwd=tmp_path, input="echo one\nexit 5\necho two\n")

    assert (ran.returncode, ran.stdout) == (5, "one\n")


def test_a_file_is_no_workspace(tmp_path: Path) -> None:
    (tmp_path / "f").touch()

    for place in ("f", "f/below"):
        ran = bascule("up", "--working-dir", place, cwd=tmp_path, input="")
        assert ran.returncode == 2
        assert ran.stderr.startswith("bascule: --working-dir f")


def test_up_takes_its_workspace_from_working_dir(tmp_path: Path) -> None:
    ran = bascule("up", "--working-dir", "a/b", cwd=tmp_path, input="pwd")

    assert ran.stdout == f"{tmp_path}/a/b\n"


# With nobody to type ------------------------------------------------------------------------


@contextmanager
def up(*arguments: str, cwd: Path, stdin: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with subprocess.Popen(
        [*BASCULE, "up", "--no-editor", *arguments],
        cwd=cwd,
        env=environment(SESSION_API_KEY="chosen"),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if found := re.search(r"exec --url (\S+)", line):
                    yield process, found[1]
                    return
            raise AssertionError("it never said its address")
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "stdin"), [(["--no-prompt"], subprocess.PIPE), ([], subprocess.DEVNULL)]
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_serves_until_it_is_stopped(
    arguments: list[str], stdin: int, number: int, tmp_path: Path
) -> None:
    with up(*arguments, cwd=tmp_path, stdin=stdin) as (process, url):
        there = bascule(
            "exec", "--url", url, "sleep 600 & echo $!", env=environment(SESSION_API_KEY="chosen")
        )
        process.send_signal(number)
        assert process.wait(TIMEOUT) == 0

    assert ended(int(there.stdout.splitlines()[-1]))
