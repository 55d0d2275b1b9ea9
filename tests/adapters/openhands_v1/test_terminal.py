"""The terminal contract of OpenHands: timeouts, reading on, input, interrupts, reset, secrets."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from openhands.tools.terminal.definition import TerminalObservation

from bascule.adapters.openhands_v1 import use_bascule

from .talk import call, conversation, converse, text_of


def run(
    workspace: Path, *commands: dict[str, object], soft_timeout: float = 60.0, **secrets: str
) -> list[TerminalObservation]:
    """What the agent was told, of a terminal that answers silence after `soft_timeout` seconds."""
    tools = use_bascule("sandbox", soft_timeout=soft_timeout)
    script = [call("terminal", **command) for command in commands]
    seen = converse(workspace, tools, *script, secrets=secrets)
    return [each for each in seen if isinstance(each, TerminalObservation)]


def test_a_shell_keeps_state_between_calls(tmp_path: Path) -> None:
    first, second = run(
        tmp_path,
        {"command": "export COLOUR=blue; mkdir sub; cd sub"},
        {"command": "echo $COLOUR; (exit 3)"},
    )

    assert first.exit_code == 0
    assert second.text == "blue\n"
    assert (second.exit_code, second.metadata.exit_code) == (3, 3)
    assert second.metadata.working_dir == f"{tmp_path}/sub"
    assert "exit code 3" in text_of(second)


def test_a_silent_command_returns_early_and_later_output_can_be_read(tmp_path: Path) -> None:
    _, early, rest = run(
        tmp_path,
        {"command": "true", "timeout": 60},  # bash has started
        {"command": "echo begun; read -t 1 nothing < /dev/zero; sleep 2; echo ended"},
        {"command": "", "is_input": True, "timeout": 60},
        soft_timeout=1.0,
    )

    assert (early.text, early.exit_code, early.timeout) == ("begun\n", -1, True)
    assert "no new output after 1 seconds" in text_of(early)
    assert (rest.text, rest.exit_code) == ("ended\n", 0)


def test_after_a_timeout_the_program_keeps_running_and_accepts_input(tmp_path: Path) -> None:
    late, done = run(
        tmp_path,
        {"command": "read answer; echo got $answer", "timeout": 0.2},
        {"command": "forty-two", "is_input": True, "timeout": 20},
    )

    assert (late.exit_code, late.timeout) == (-1, True)
    assert "timed out after 0.2 seconds" in text_of(late)
    assert (done.text, done.exit_code) == ("got forty-two\n", 0)


def test_an_explicit_timeout_overrides_the_no_change_timeout(tmp_path: Path) -> None:
    command: dict[str, object] = {"command": "sleep 0.8; echo ended", "timeout": 60}
    (seen,) = run(tmp_path, command, soft_timeout=0.5)

    assert (seen.text, seen.exit_code) == ("ended\n", 0)


def test_a_running_program_is_not_disturbed_by_the_next_command(tmp_path: Path) -> None:
    """The stock terminal interrupts it."""
    _, refused, interrupted, after = run(
        tmp_path,
        {"command": "sleep 60", "timeout": 0.2},
        {"command": "echo never"},
        {"command": "C-c", "is_input": True, "timeout": 20},
        {"command": "echo usable"},
    )

    assert refused.exit_code == -1
    assert "NOT executed" in text_of(refused)
    assert "queue" not in text_of(refused)
    assert interrupted.exit_code == 130
    assert after.text == "usable\n"


def test_named_keys_are_sent_to_the_terminal(tmp_path: Path) -> None:
    # At once (0): a program that is slow to start would else throw away what was typed meanwhile.
    read = "python3 -c 'import sys,tty; tty.setcbreak(0, 0); print(repr(sys.stdin.read(1)))'"
    answers = run(
        tmp_path,
        {"command": read, "timeout": 0.5},
        {"command": "ESC", "is_input": True, "timeout": 20},
        {"command": "UP", "is_input": True},
    )

    assert answers[1].text == "'\\x1b'\n"
    assert answers[2].is_error


def test_exit_ends_the_shell_and_the_next_command_gets_a_new_one(tmp_path: Path) -> None:
    """The stock terminal answers this with an error, or with nothing ever again."""
    _, ended, after = run(
        tmp_path,
        {"command": "export COLOUR=blue"},
        {"command": "exit 3"},
        {"command": "echo [$COLOUR]; pwd"},
    )

    assert ended.exit_code == 3
    assert after.text == f"[]\n{tmp_path}\n"


def test_reset_ends_all_processes_and_starts_a_new_shell(tmp_path: Path) -> None:
    background = "(while :; do date > alive; read -t 0.01; done < /dev/zero) &"
    answers = run(
        tmp_path,
        {"command": f"export COLOUR=blue; cd /; {background} echo $! > {tmp_path}/pid"},
        {"command": "trap '' INT TERM; sleep 60", "timeout": 0.2},
        {"command": "", "reset": True},
        {"command": "echo [$COLOUR]; pwd; kill -0 $(cat pid) 2>/dev/null; echo $?"},
    )

    assert answers[2].exit_code == 0
    assert answers[3].text == f"[]\n{tmp_path}\n1\n"


def test_reset_can_be_combined_with_a_command(tmp_path: Path) -> None:
    _, seen = run(
        tmp_path,
        {"command": "sleep 60", "timeout": 0.2},
        {"command": "echo new", "reset": True},
    )

    assert (seen.text, seen.exit_code, seen.command) == ("new\n", 0, "[RESET] echo new")
    assert "was reset" in text_of(seen)


@pytest.mark.parametrize("command", ["", "hello"])
def test_typing_without_a_running_program_is_an_error(tmp_path: Path, command: str) -> None:
    (seen,) = run(tmp_path, {"command": command, "is_input": True})

    assert seen.is_error
    assert "No previous running command" in text_of(seen)


def test_an_unbalanced_quote_is_answered_at_once(tmp_path: Path) -> None:
    seen, after = run(tmp_path, {"command": "echo 'oops"}, {"command": "echo usable"})

    assert seen.exit_code != 0
    assert after.text == "usable\n"


def test_a_secret_reaches_the_command_that_names_it_and_is_masked_in_output(tmp_path: Path) -> None:
    seen, lasting, read = converse(
        tmp_path,
        use_bascule("sandbox"),
        call("terminal", command="echo $API_KEY | tee kept; echo ${#API_KEY}"),
        call("terminal", command="env | grep -c ^API"),
        call("file_editor", command="view", path="kept"),
        secrets={"API_KEY": "s3cr3t'value"},
    )

    assert (tmp_path / "kept").read_text() == "s3cr3t'value\n"
    assert text_of(seen).startswith("<secret-hidden>\n12\n")
    assert text_of(lasting).startswith("1\n")
    assert "s3cr3t" not in text_of(read)
    assert "<secret-hidden>" in text_of(read)


def test_colours_and_progress_bars_are_rendered_as_on_a_terminal(tmp_path: Path) -> None:
    bar = r"printf '\033[31mred\033[0m \033]0;title\007end\n10%%\r100%%\n'"
    (seen,) = run(tmp_path, {"command": bar})

    assert seen.text == "red end\n100%\n"


def test_long_output_keeps_head_and_tail_and_names_the_full_log(tmp_path: Path) -> None:
    (seen,) = run(tmp_path, {"command": "seq 100000"})
    text = text_of(seen)

    assert text.startswith("1\n2\n")
    assert "100000\n" in text
    assert "bytes left out" in text
    assert len(text) < 30_000


def test_an_interrupt_from_another_thread_ends_the_command(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    with conversation(tmp_path, use_bascule("sandbox")) as talk:
        talk.send_message("Please.")
        terminal = talk.agent.tools_map["terminal"]
        action = terminal.action_from_arguments(
            {"command": "echo > begun; sleep 60", "timeout": 60}
        )
        with ThreadPoolExecutor() as threads:
            seen = threads.submit(terminal, action, talk)
            (tmp_path / "begun").read_text()
            terminal.executor.interrupt()

            assert seen.result().exit_code == 130


def test_a_conversation_that_ends_leaves_no_process(tmp_path: Path) -> None:
    (seen,) = run(tmp_path, {"command": "sleep 600 & echo $!"})
    pid = int(seen.text.split()[-1])

    # It was killed; that init has noticed may take a moment.
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(10)
