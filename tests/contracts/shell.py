"""What every kind of shell must do. A kind's tests subclass `ShellSuite` and give `shell`."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from bascule.core.actions import CmdRun
from bascule.core.contracts import CommandPlace, OutputProgress, Shell
from bascule.core.errors import CommandInvalid, LogRangeGone, ShellClosed
from bascule.core.observations import CmdOutput


async def run(
    shell: Shell, command: str, *, timeout: float | None = 60, **arguments: object
) -> CmdOutput:
    """Without a soft timeout, which a busy machine might reach, unless `timeout` is None."""
    about = {"timeout": timeout, "blocking": timeout is not None, **arguments}
    return await shell.run(CmdRun(command, **about))  # type: ignore[arg-type]


async def text(shell: Shell, command: str, **arguments: Any) -> str:
    return (await run(shell, command, **arguments)).content


async def typed(shell: Shell, what: str, **arguments: Any) -> CmdOutput:
    return await run(shell, what, is_input=True, **arguments)


async def read_on_until(shell: Shell, wanted: str, output: str = "") -> str:
    """Read on until `wanted` has been seen; the test's own timeout bounds it."""
    while wanted not in output:
        answer = await run(shell, "", timeout=0.05)
        output += answer.content
        assert answer.metadata.state == "running" or wanted in output, output
    return output


async def started(shell: Shell, command: str, sign: str = "ready") -> CmdOutput:
    """Start a command that prints `sign` once it is under way, and leave it running."""
    answer = await run(shell, command, timeout=0.05)
    await read_on_until(shell, sign, answer.content)
    return answer


def sleepers(mark: str) -> set[str]:
    """What living `sleep` processes were told, where it starts with `mark`."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if words[:1] == [b"sleep"] and words[1].startswith(mark.encode()):
            found.add(words[1].decode())
    return found


class RemembersState:
    async def test_directory_variables_functions_and_options_outlive_a_command(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        (tmp_path / "sub").mkdir()
        await run(
            shell, f"cd {tmp_path}/sub; export A=1; B=2; f() {{ echo f$A$B; }}; shopt -s extglob"
        )
        assert (
            await text(shell, "pwd; f; shopt extglob | grep -o on") == f"{tmp_path}/sub\nf12\non\n"
        )
        assert shell.cwd == f"{tmp_path}/sub"

    async def test_the_last_exit_status_is_available_to_the_next_command(
        self, shell: Shell
    ) -> None:
        for status in (0, 1, 2, 7, 127, 255):
            await run(shell, f"(exit {status})")
            assert await text(shell, "echo $?") == f"{status}\n"

    async def test_jobs_stay_and_can_be_waited_for(self, shell: Shell) -> None:
        await run(shell, "sleep 30 &")
        assert "sleep 30" in await text(shell, "jobs")
        assert (await run(shell, "kill %1; wait %1")).exit_code == 143

    async def test_aliases_work(self, shell: Shell) -> None:
        await run(shell, "alias hi='echo hello'")
        assert await text(shell, "hi") == "hello\n"

    async def test_no_internal_variable_reaches_programs(self, shell: Shell) -> None:
        before = await text(shell, "env | sort")
        await run(shell, "true")
        assert await text(shell, "env | sort") == before

    async def test_descriptors_that_the_user_opens_stay_open(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        for number in (3, 9, 10, 11, 200):
            await run(shell, f"exec {number}>{tmp_path}/file")
            await run(shell, f"echo kept >&{number}; exec {number}>&-")
            assert await text(shell, f"cat {tmp_path}/file") == "kept\n"

    async def test_programs_inherit_only_the_three_standard_descriptors(self, shell: Shell) -> None:
        listing = await text(shell, "ls /proc/self/fd")
        assert listing.split() == ["0", "1", "2", "3"]  # 3 is the listing's own


class ShowsExactOutput:
    @pytest.mark.parametrize(
        "expected",
        [
            "plain\n",
            "no newline at the end",
            "  leading and trailing  \n\n\n",
            "\n\n",
            "tab\tand\x0bothers\x0c\n",
            "10%\r50%\r100%\n",
            "crlf\r\nlines\r\n",
            "\x1b[31mred\x1b[0m and \x1b]0;a title\x07\n",
            "\x1b]7771;",
            "\x1b[?2004h\x1b[200~paste\x1b[201~",
            "bang ! !! !$ \\; \\\\ ' \" $HOME `x` > <\n",
            "äöü € 漢字 🙂 \u200b\n",
            "",
        ],
    )
    async def test_every_byte_comes_as_it_was_printed(self, shell: Shell, expected: str) -> None:
        assert await text(shell, f"printf %s {shlex.quote(expected)}") == expected

    async def test_binary_garbage_is_exact_in_the_log(self, shell: Shell, tmp_path: Path) -> None:
        garbage = bytes(range(256)) * 40 + os.urandom(20_000)
        (tmp_path / "garbage").write_bytes(garbage)
        answer = await run(shell, f"cat {tmp_path}/garbage", output_limit=0)
        meta = answer.metadata
        assert answer.exit_code == 0
        assert shell.log.read(meta.log_start, meta.log_end) == garbage
        assert answer.content == garbage.decode(errors="replace")

    async def test_a_character_split_between_two_writes_is_whole(self, shell: Shell) -> None:
        command = r"printf '\xe6\xbc'; sleep 0.05; printf '\xa2\xe5'; sleep 0.05; printf '\xad\x97'"
        assert await text(shell, command) == "漢字"

    async def test_a_character_split_between_two_answers_is_in_the_second(
        self, shell: Shell
    ) -> None:
        first = await run(shell, r"printf 'a\xe6\xbc'; read; printf '\xa2b'", timeout=0.1)
        while first.content == "":
            first = await run(shell, "", timeout=0.1)
        assert (first.content, (await typed(shell, "\n")).content) == ("a", "漢b")

    async def test_input_is_not_echoed(self, shell: Shell) -> None:
        await started(shell, "echo ready; read line; echo got $line")
        assert (await typed(shell, "secret")).content == "got secret\n"

    async def test_output_of_both_streams_keeps_its_order(self, shell: Shell) -> None:
        command = "for i in 1 2 3; do echo out$i; echo err$i >&2; done"
        assert await text(shell, command) == "out1\nerr1\nout2\nerr2\nout3\nerr3\n"

    async def test_a_shell_without_output_descriptors_still_answers(self, shell: Shell) -> None:
        answer = await run(shell, "exec >/dev/null 2>&1; echo lost")
        assert (answer.content, answer.exit_code) == ("", 0)
        assert await text(shell, "exec >/dev/tty 2>&1; echo back") == "back\n"

    async def test_terminal_modes_left_by_a_command_are_reset(self, shell: Shell) -> None:
        await run(shell, "stty sane echo opost raw")
        assert await text(shell, "printf 'a\\nb\\n'") == "a\nb\n"


class TakesAnyCommand:
    async def test_a_command_may_have_several_lines_comments_and_blank_lines(
        self, shell: Shell
    ) -> None:
        command = "\n  # a comment\n\necho one # and another\n\n\necho two\n  \n# the last"
        assert await text(shell, command) == "one\ntwo\n"

    async def test_compound_commands_may_span_several_lines(self, shell: Shell) -> None:
        assert (
            await text(shell, "for i in 1 2\ndo\n  if true\n  then echo $i\n  fi\ndone") == "1\n2\n"
        )

    async def test_a_heredoc_may_have_thousands_of_lines(self, shell: Shell) -> None:
        lines = "".join(f"line {i} with 'quotes' and \"more\" \\ !\n" for i in range(5000))
        answer = await text(shell, f"cat <<'END'\n{lines}END\n", output_limit=0)
        assert answer == lines

    async def test_a_command_line_may_have_200_kilobytes(self, shell: Shell) -> None:
        word = "x" * 200_000
        assert await text(shell, f"echo {word} | wc -c") == "200001\n"

    async def test_tabs_in_a_command_do_not_trigger_completion(self, shell: Shell) -> None:
        assert await text(shell, "printf '%s'\t'a\tb'\t") == "a\tb"

    async def test_exclamation_marks_are_not_expanded_from_history(self, shell: Shell) -> None:
        assert await text(shell, "echo \"wow!\" !x; echo '!!'") == "wow! !x\n!!\n"

    @pytest.mark.parametrize(
        "command",
        ["echo 'unbalanced", 'echo "unbalanced', "echo `", "if true; then", "((", "}", "a | | b"],
    )
    async def test_a_syntax_error_is_reported_at_once_by_bash(
        self, shell: Shell, command: str
    ) -> None:
        async with asyncio.timeout(30):
            answer = await run(shell, command)
        assert answer.exit_code == 2
        assert re.search("unexpected|syntax error", answer.content)
        assert await text(shell, "echo fine") == "fine\n"

    async def test_an_unfinished_heredoc_ends_at_the_end(self, shell: Shell) -> None:
        answer = await run(shell, "cat <<END\nbody")
        assert answer.exit_code == 0
        assert answer.content.endswith("body\n")

    async def test_a_nul_byte_is_refused_by_name(self, shell: Shell) -> None:
        with pytest.raises(CommandInvalid, match="NUL byte at position 5"):
            await run(shell, "echo \0")
        assert await text(shell, "echo fine") == "fine\n"

    async def test_a_lone_surrogate_is_refused_by_name(self, shell: Shell) -> None:
        with pytest.raises(CommandInvalid, match="udcff"):
            await run(shell, "echo \udcff")

    @pytest.mark.parametrize(
        "option", ["-u", "-f", "-C", "-v", "-o posix", "-o pipefail", "-b", "-k"]
    )
    async def test_commands_work_with_any_bash_option_set(self, shell: Shell, option: str) -> None:
        await run(shell, f"set {option}")
        assert (await text(shell, "echo a")).endswith("a\n")
        assert (await run(shell, "false")).exit_code == 1
        assert (await text(shell, "echo $?")).endswith("1\n")

    async def test_set_x_traces_only_the_users_commands(self, shell: Shell) -> None:
        await run(shell, "PS4='+ '; set -x")
        assert await text(shell, "echo a") == "++ echo a\na\n"
        assert (await run(shell, "false")).content == "++ false\n"
        assert await text(shell, "echo $?") == "++ echo 1\n1\n"

    @pytest.mark.parametrize("name", ["printf", "eval", "unset", "return", "echo", "exec"])
    async def test_functions_named_like_builtins_do_no_harm(self, shell: Shell, name: str) -> None:
        await run(shell, f"{name}() {{ command true; }}")
        assert (await run(shell, "/bin/echo a")).content == "a\n"
        assert (await run(shell, "(exit 3)")).exit_code == 3
        assert (await run(shell, "true")).exit_code == 0

    async def test_a_read_only_prompt_does_no_harm(self, shell: Shell) -> None:
        await run(shell, "readonly PS1")
        for number in range(3):
            answer = await run(shell, f"echo {number}; (exit 3)")
            assert f"{number}\n" in answer.content  # beside bash's complaint
            assert answer.exit_code == 3

    async def test_long_output_works_after_the_terminal_descriptor_is_closed(
        self, shell: Shell
    ) -> None:
        answer = await run(shell, "seq 1 100000; exec 255>&-; false")
        assert (answer.metadata.state, answer.exit_code) == ("done", 1)
        assert await text(shell, "echo next") == "next\n"

    async def test_disabled_or_shadowed_builtins_are_restored(self, shell: Shell) -> None:
        async with asyncio.timeout(30):
            assert (await run(shell, "builtin() { :; }")).metadata.state == "done"
            assert await text(shell, "echo a") == "a\n"
            assert (await run(shell, "enable -n printf")).metadata.state == "done"
            assert await text(shell, "echo b") == "b\n"

    @pytest.mark.parametrize("before", ["true", "sleep 0.01 & wait"])
    async def test_a_closed_descriptor_of_the_terminal_is_opened_again(
        self, shell: Shell, before: str
    ) -> None:
        await run(shell, before)
        await run(shell, "exec 255>&-")
        assert (await run(shell, "echo once >> runs; cat runs; false")).content == "once\n"
        assert (await run(shell, "exec 255>&-; (exit 1)")).exit_code == 1
        assert (await run(shell, "tty -s")).exit_code == 0

    async def test_a_command_runs_where_it_is_told_to(self, shell: Shell, tmp_path: Path) -> None:
        there = tmp_path / "a b'c"
        there.mkdir()
        answer = await shell.run(CmdRun("pwd", cwd=str(there)))
        assert (answer.content, answer.metadata.working_dir) == (f"{there}\n", str(there))
        answer = await shell.run(CmdRun("echo not run", cwd=f"{there}/nowhere"))
        assert "nowhere: No such file" in answer.content
        assert "not run" not in answer.content
        assert answer.exit_code == 1


class ReportsMetadata:
    async def test_an_answer_has_status_directory_user_host_and_interpreter(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        meta = (await run(shell, f"cd {tmp_path}; (exit 42)")).metadata
        assert (meta.exit_code, meta.working_dir, meta.state) == (42, str(tmp_path), "done")
        assert meta.hostname == socket.gethostname()
        assert meta.username == (await text(shell, "id -un")).strip()
        python = (await text(shell, "command -v python || command -v python3")).strip()
        assert meta.py_interpreter_path == python

    async def test_the_interpreter_follows_the_path(self, shell: Shell, tmp_path: Path) -> None:
        python = tmp_path / "python"
        python.write_text("#!/bin/sh\n")
        python.chmod(0o755)
        answer = await run(shell, f"export PATH={tmp_path}:$PATH")
        assert answer.metadata.py_interpreter_path == str(python)

    async def test_the_reported_pid_is_that_of_the_last_background_job(self, shell: Shell) -> None:
        assert (await run(shell, "true")).metadata.pid == -1
        answer = await run(shell, "sleep 30 &")
        assert answer.content == f"[1] {answer.metadata.pid}\n"

    async def test_directories_with_strange_names_are_reported_correctly(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        strange = tmp_path / "a b;c\x1f'\"\n漢 !"
        strange.mkdir()
        answer = await run(shell, f"cd {shlex.quote(str(strange))}")
        assert answer.metadata.working_dir == str(strange)

    async def test_a_directory_entered_through_a_symlink_keeps_that_path(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        assert (await run(shell, f"cd {tmp_path}/link")).metadata.working_dir == f"{tmp_path}/link"

    async def test_the_log_range_holds_the_output(self, shell: Shell) -> None:
        await run(shell, "echo before")
        meta = (await run(shell, "echo this")).metadata
        assert shell.log.read(meta.log_start, meta.log_end) == b"this\n"
        assert (meta.output_bytes, meta.left_out_bytes) == (5, 0)

    async def test_an_answer_names_its_shell_and_the_action_that_caused_it(
        self, shell: Shell
    ) -> None:
        action = CmdRun("true")
        answer = await shell.run(action)
        assert (answer.cause, answer.command, answer.metadata.shell) == (
            action.id,
            "true",
            shell.name,
        )


class KnowsTheEnd:
    async def test_printing_the_parts_of_a_mark_does_not_end_a_command(self, shell: Shell) -> None:
        command = "set; env; declare -p; echo ${PS1@P}; echo $PS1; history; trap -p; echo the end"
        assert (await text(shell, command, output_limit=0)).endswith("the end\n")

    async def test_printing_the_log_does_not_end_a_command(self, shell: Shell) -> None:
        await run(shell, "echo something; set -v")
        await run(shell, "set +v; false")
        path = shell.log.path
        command = f"cp {path} copy; cat copy copy; echo the end"
        assert (await text(shell, command, output_limit=0)).endswith("the end\n")

    async def test_the_log_contains_no_marks(self, shell: Shell) -> None:
        for command in ("true", "echo a", "false", "sleep 0.01 &", "echo b"):
            await run(shell, command)
        assert b"7771" not in shell.log.read(shell.log.start)

    async def test_prompt_command_and_prompt_text_are_not_output(self, shell: Shell) -> None:
        await run(shell, "PROMPT_COMMAND='echo noise'; PS1=\"(venv) $PS1\"")
        assert await text(shell, "echo a") == "a\n"
        assert await text(shell, "echo b") == "b\n"
        answer = await run(shell, "sleep 60", timeout=0.05)
        answer = await typed(shell, "C-c")
        assert "(venv)" not in answer.content

    async def test_text_that_a_hook_prints_after_the_end_is_not_output(self, shell: Shell) -> None:
        for hook in ("PROMPT_COMMAND='echo noise'", "PROMPT_COMMAND=('' 'echo noise')") * 15:
            answer = await run(shell, f"echo a; {hook}")
            assert answer.content == "a\n"
            assert (await run(shell, "unset PROMPT_COMMAND; echo b")).content == "b\n"

    async def test_text_that_bash_prints_before_a_command_is_not_output(self, shell: Shell) -> None:
        await run(shell, "PS0='noise '")
        for _ in range(3):
            assert (await run(shell, "echo a")).content == "a\n"

    async def test_notices_of_a_program_that_was_stopped_are_not_output(self, shell: Shell) -> None:
        await run(shell, "sh -c 'kill -STOP $$; exit 3'")
        assert (await run(shell, "kill -9 %1")).exit_code == 0
        for word in ("a", "b"):
            assert await text(shell, f"echo {word}") == f"{word}\n"

    async def test_a_notice_right_after_the_end_is_not_output(self, shell: Shell) -> None:
        for _ in range(10):  # the job ends while bash is busy with builtins
            answer = await run(shell, "sleep 0.001 & for i in {1..9000}; do :; done; echo a")
            assert re.fullmatch(rf"\[\d\] {answer.metadata.pid}\na\n", answer.content)
            assert (await run(shell, "echo b")).content == "b\n"

    async def test_notices_of_ended_jobs_come_between_commands(self, shell: Shell) -> None:
        await run(shell, "true & wait")
        await run(shell, "echo a")
        assert await text(shell, "echo b") == "b\n"

    async def test_background_output_between_commands_is_kept(self, shell: Shell) -> None:
        seen = asyncio.Event()
        stop = shell.subscribe(lambda piece: seen.set() if b"late" in piece.data else None)
        await run(shell, "(read < <(sleep 0.05); echo late) &")
        await seen.wait()
        stop()
        answer = await run(shell, "echo now")
        assert answer.content == "now\n"
        assert "late\n" in answer.metadata.background

    async def test_a_failing_output_listener_does_not_affect_commands(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(_: OutputProgress) -> None:
            raise RuntimeError("a listener's own fault")

        monkeypatch.setattr(logging.Logger, "warning", lambda *_: None)
        stop = shell.subscribe(fail)
        assert await text(shell, "echo a") == "a\n"
        stop()

    async def test_a_thousand_commands_keep_their_own_output(self, shell: Shell) -> None:
        for number in range(1000):
            answer = await run(
                shell,
                f"echo {number}; (exit {number % 3})" if number % 50 == 0 else f"echo {number}",
            )
            assert answer.content == f"{number}\n"

    @pytest.mark.parametrize(
        "command", ["echo ${nothing?really}", "set -u; echo $nothing", "readonly R=1; R=2"]
    )
    async def test_a_command_that_bash_aborts_with_an_error_still_ends(
        self, shell: Shell, command: str
    ) -> None:
        async with asyncio.timeout(30):
            answer = await run(shell, command)
        assert answer.exit_code in (1, 127)
        assert "bash:" in answer.content
        assert await text(shell, "set +u; echo fine") == "fine\n"


class TimesOut:
    async def test_a_soft_timeout_returns_when_output_stops(self, shell: Shell) -> None:
        await run(shell, "true")  # bash has started
        answer = await run(shell, "echo seen; sleep 60", timeout=None)
        meta = answer.metadata
        assert (answer.content, answer.exit_code, meta.state, meta.timed_out) == (
            "seen\n",
            -1,
            "running",
            "soft",
        )
        assert "no new output" in meta.suffix

    async def test_new_output_postpones_the_soft_timeout(self, shell: Shell) -> None:
        command = "for i in {1..12}; do echo $i; sleep 0.2; done"
        assert (await run(shell, command, timeout=None)).exit_code == 0

    async def test_a_blocking_command_has_no_soft_time_out(self, shell: Shell) -> None:
        answer = await run(shell, "sleep 2.2; echo done", blocking=True, timeout=60)
        assert (answer.content, answer.exit_code) == ("done\n", 0)

    async def test_a_hard_time_out_leaves_the_program_running(self, shell: Shell) -> None:
        first = await run(shell, "echo a; read; echo b", timeout=0.2)
        assert (first.exit_code, first.metadata.timed_out) == (-1, "hard")
        assert "timed out after 0.2 seconds" in first.metadata.suffix
        assert shell.is_running
        last = await typed(shell, "\n")
        assert (first.content + last.content, last.exit_code) == ("a\nb\n", 0)

    async def test_reading_further_returns_only_new_output(self, shell: Shell) -> None:
        await started(shell, "echo ready; read; echo one; read; echo two")
        first = await typed(shell, "\n", timeout=0.3)
        assert await read_on_until(shell, "one\n", first.content) == "one\n"
        assert first.metadata.prefix.startswith("[Below is the output of the previous command")
        last = await typed(shell, "\n")
        assert (last.content, last.exit_code, last.metadata.prefix) == ("two\n", 0, "")

    async def test_a_command_is_rejected_while_another_runs(self, shell: Shell) -> None:
        await started(shell, "echo ready; read; echo done")
        answer = await run(shell, "echo other")
        assert (answer.exit_code, answer.metadata.state) == (-1, "refused")
        assert "NOT executed" in answer.metadata.suffix
        assert (await typed(shell, "\n")).content == "done\n"

    async def test_a_queued_command_waits_for_the_running_one(self, shell: Shell) -> None:
        first = asyncio.create_task(run(shell, "read line; echo $line"))
        while not shell.is_running:
            await asyncio.sleep(0)
        others = [asyncio.create_task(run(shell, f"echo {n}", queue=True)) for n in range(5)]
        await asyncio.sleep(0)
        await typed(shell, "go")
        assert (await first).content == "go\n"
        assert [answer.content for answer in await asyncio.gather(*others)] == [
            f"{n}\n" for n in range(5)
        ]

    async def test_an_end_that_nobody_awaited_is_reported_by_the_next_read(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        os.mkfifo(tmp_path / "go")
        await run(shell, f"read < {tmp_path}/go; echo last; (exit 5)", timeout=0.05)
        await asyncio.to_thread((tmp_path / "go").write_text, "now\n")
        while shell.is_running:
            await asyncio.sleep(0)
        answer = await run(shell, "")
        assert (answer.content, answer.exit_code, answer.metadata.state) == ("last\n", 5, "done")
        assert (await run(shell, "")).metadata.state == "idle"

    async def test_a_new_command_reports_the_command_that_ended_meanwhile(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        os.mkfifo(tmp_path / "go")
        await run(shell, f"read < {tmp_path}/go; echo last; (exit 5)", timeout=0.05)
        await asyncio.to_thread((tmp_path / "go").write_text, "now\n")
        while shell.is_running:
            await asyncio.sleep(0)
        answer = await run(shell, "echo $?")
        assert answer.content == "5\n"
        assert "exit code 5" in answer.metadata.prefix
        assert "last\n" in answer.metadata.prefix

    async def test_an_impossible_limit_is_refused(self, shell: Shell) -> None:
        with pytest.raises(CommandInvalid, match="-1"):
            await run(shell, "true", output_limit=-1)

    async def test_reading_or_typing_without_a_running_command_is_reported(
        self, shell: Shell
    ) -> None:
        for answer in (await run(shell, ""), await typed(shell, "x"), await typed(shell, "C-c")):
            assert (answer.exit_code, answer.metadata.state) == (-1, "idle")
            assert "No previous running command" in answer.content

    async def test_a_caller_that_types_does_not_take_output_from_a_waiting_caller(
        self, shell: Shell
    ) -> None:
        waiting = asyncio.create_task(run(shell, "read a; echo got $a"))
        while not shell.is_running:
            await asyncio.sleep(0)
        answer = await typed(shell, "it")
        assert (answer.content, answer.metadata.state) == ("", "running")
        assert (await waiting).content == "got it\n"


class TypesAndInterrupts:
    async def test_ctrl_c_ends_a_program(self, shell: Shell) -> None:
        await started(shell, "echo ready; sleep 60")
        answer = await typed(shell, "C-c")
        assert answer.exit_code == 130
        assert "CTRL+C" in answer.metadata.suffix
        assert await text(shell, "echo fine") == "fine\n"

    @pytest.mark.parametrize(
        "loop", ["while :; do :; done", "while sleep 0.01; do :; done", "read x", "wait"]
    )
    async def test_ctrl_c_ends_a_loop_of_bash_itself(self, shell: Shell, loop: str) -> None:
        await run(shell, "sleep 60 &")
        await started(shell, f"echo ready; {loop}")
        assert (await typed(shell, "C-c")).exit_code == 130
        assert await text(shell, "echo fine") == "fine\n"

    async def test_ctrl_d_is_the_end_of_input(self, shell: Shell) -> None:
        await started(shell, "echo ready; cat; echo after")
        answer = await typed(shell, "C-d")
        assert (answer.content, answer.exit_code) == ("after\n", 0)

    async def test_ctrl_z_stops_and_fg_continues(self, shell: Shell) -> None:
        await started(shell, "echo ready; sleep 60")
        assert (await typed(shell, "C-z")).exit_code == 148
        assert "Stopped" in await text(shell, "jobs")
        await run(shell, "fg", timeout=0.1)
        assert (await typed(shell, "C-c")).exit_code == 130

    async def test_ctrl_backslash_quits(self, shell: Shell) -> None:
        await started(shell, "echo ready; ulimit -c 0; sleep 60")
        assert (await typed(shell, "C-\\")).exit_code == 131

    async def test_a_program_that_reads_single_keys_gets_them(self, shell: Shell) -> None:
        command = "stty raw; echo ready; head -c 1 | od -An -tx1"
        await started(shell, command)
        assert (await typed(shell, "C-c")).content.split() == ["03"]

    async def test_a_password_prompt_that_turns_echo_off_can_be_answered(
        self, shell: Shell
    ) -> None:
        await started(shell, "read -s -p 'Password: ' p; echo; echo len ${#p}", "Password: ")
        assert (await typed(shell, "s3cret")).content == "\nlen 6\n"

    async def test_a_program_that_opens_the_terminal_itself_can_be_answered(
        self, shell: Shell
    ) -> None:
        await started(shell, "echo ready; echo piped | { read a; read b </dev/tty; echo $a $b; }")
        assert (await typed(shell, "typed")).content == "piped typed\n"

    async def test_an_interactive_interpreter_answers_line_by_line(self, shell: Shell) -> None:
        await started(shell, "PYTHON_BASIC_REPL=1 python3 -q -i -c 'print(\"ready\")'")
        answer = await typed(shell, "print(6*7)", timeout=1)
        assert "42" in await read_on_until(shell, "42", answer.content)
        await typed(shell, "exit(5)")
        assert not shell.is_running

    async def test_a_typed_line_longer_than_the_terminal_limit_arrives_complete(
        self, shell: Shell
    ) -> None:
        await started(
            shell, "echo ready; read line; echo ${#line} ${line: -3}; read next; echo $next"
        )
        answer = await typed(shell, "x" * 100_000 + "end", timeout=5)
        assert await read_on_until(shell, "\n", answer.content) == "100003 end\n"
        assert (await typed(shell, "usual")).content == "usual\n"

    async def test_the_alternate_screen_passes_unchanged(self, shell: Shell) -> None:
        screen = "\x1b[?1049h\x1b[2J\x1b[1;1Hfull screen\x1b[?1049l"
        assert await text(shell, f"printf %s {shlex.quote(screen)}") == screen

    async def test_interrupt_ends_a_running_command(self, shell: Shell) -> None:
        assert not await shell.interrupt()
        waiting = asyncio.create_task(run(shell, "sleep 60"))
        while not shell.is_running:
            await asyncio.sleep(0)
        assert await shell.interrupt()
        assert (await waiting).exit_code == 130

    async def test_kill_ends_what_ignores_interrupts(self, shell: Shell) -> None:
        await started(
            shell, "bash -c 'trap \"\" INT TERM; echo ready; while :; do sleep 0.05; done'"
        )
        await typed(shell, "C-c", timeout=0.1)
        assert shell.is_running
        assert await shell.interrupt(kill=True)
        assert (await run(shell, "")).exit_code == 137

    @pytest.mark.parametrize("command", ["while :; do :; done", "read x", "sleep 30 & wait"])
    async def test_ctrl_c_still_interrupts_after_an_early_answer(
        self, shell: Shell, command: str
    ) -> None:
        await run(shell, "kept=1")
        assert (await run(shell, command, timeout=0.1)).metadata.state == "running"
        for _ in range(2):  # asked twice whether it has ended
            await run(shell, "", timeout=0.1)
        assert (await typed(shell, "C-c")).exit_code == 130
        assert await text(shell, "echo $kept") == "1\n"

    async def test_every_ctrl_c_reaches_a_trap(self, shell: Shell) -> None:
        await run(shell, "n=0; trap 'echo caught $((++n))' INT", timeout=5)
        await run(shell, "while ((n < 3)); do :; done", timeout=0.1)
        for number in (1, 2):
            answer = await typed(shell, "C-c", timeout=0.1)
            await read_on_until(shell, f"caught {number}\n", answer.content)
        answer = await typed(shell, "C-c")
        assert "caught 3" in answer.content
        await run(shell, "trap - INT")

    async def test_unread_input_does_not_reach_the_next_command(self, shell: Shell) -> None:
        await run(shell, "sleep 0.3", timeout=0.05)
        await typed(shell, "stale", timeout=0.05)
        await run(shell, "")
        assert await text(shell, "read -t 0.2 x; echo got=$x") == "got=\n"

    async def test_many_interrupts_do_not_corrupt_later_commands(self, shell: Shell) -> None:
        for number in range(40):
            waiting = asyncio.create_task(run(shell, "while :; do :; done"))
            while not shell.is_running:
                await asyncio.sleep(0)
            for _ in range(number % 4 + 1):
                await shell.interrupt()
                await asyncio.sleep(0)
            ended = await waiting
            assert (ended.exit_code, ended.content.strip()) == (130, "")
            answer = await run(shell, f"echo whole {number} line")
            assert (answer.content, answer.exit_code) == (f"whole {number} line\n", 0)


class SurvivesItsEnd:
    @pytest.mark.parametrize(
        ("command", "status"),
        [
            ("exit 3", 3),
            ("exit", 0),
            ("set -e; false", 1),
            ("kill -9 $$", 137),
            ("kill -TERM $$; trap - TERM; exec false", 1),
            ("exec true", 0),
            ("exec sh -c 'exit 9'", 9),
        ],
    )
    async def test_the_exit_status_of_a_shell_is_reported_and_a_new_shell_follows(
        self, shell: Shell, command: str, status: int, tmp_path: Path
    ) -> None:
        await run(shell, f"cd {tmp_path}; LOST=1")
        answer = await run(shell, command)
        assert (answer.exit_code, answer.metadata.shell_ended) == (status, True)
        after = await run(shell, "echo $LOST. $PWD")
        assert (after.content, after.metadata.new_shell) == (f". {tmp_path}\n", True)
        assert "new shell" in after.metadata.suffix
        assert not (await run(shell, "true")).metadata.new_shell

    async def test_exec_of_a_shell_keeps_its_environment(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        for other in ("bash", "bash --norc -i", "sh", "exec bash -l"):
            await run(shell, f"cd {tmp_path}; export KEPT={len(other)}")
            async with asyncio.timeout(30):
                answer = await run(shell, f"exec {other}".replace("exec exec", "exec"))
            assert answer.metadata.state == "done"
            assert await text(shell, "echo $KEPT $PWD") == f"{len(other)} {tmp_path}\n"

    async def test_closing_stdin_does_not_close_the_shells_input(self, shell: Shell) -> None:
        answer = await run(shell, "exec <&-; read x || echo no input")
        assert answer.content.endswith("no input\n")
        assert await text(shell, "echo fine") == "fine\n"

    async def test_output_before_the_end_of_the_shell_is_whole(self, shell: Shell) -> None:
        answer = await run(shell, "seq 1 20000; exit 4", output_limit=0)
        assert answer.content.startswith("".join(f"{n}\n" for n in range(1, 20001)))
        assert answer.exit_code == 4

    async def test_a_shell_works_after_its_directory_is_removed(
        self, shell: Shell, tmp_path: Path
    ) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        await run(shell, f"cd {gone}; rmdir {gone}")
        await run(shell, "exit")
        assert (await run(shell, "pwd")).exit_code == 0


class LimitsOutput:
    async def test_head_and_tail_are_kept_and_the_rest_is_counted(self, shell: Shell) -> None:
        whole = "".join(f"{n}\n" for n in range(1, 50001))
        answer = await run(shell, "seq 1 50000")
        meta = answer.metadata
        assert len(answer.content) <= 30_000
        head, tail = re.split(r"\n\[…[^\n]*\n", answer.content)
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert meta.left_out_bytes == len(whole) - len(head) - len(tail)
        assert f"{meta.left_out_bytes:,} bytes left out" in answer.content
        assert shell.log.read(meta.log_start, meta.log_end).decode() == whole

    async def test_the_limit_can_be_set_and_counts_characters(self, shell: Shell) -> None:
        answer = await run(shell, "printf '漢%.0s' {1..1000}", output_limit=100)
        assert answer.content.count("漢") == 100
        assert answer.metadata.left_out_bytes == 2700

    async def test_output_limit_0_returns_all_output(self, shell: Shell) -> None:
        answer = await run(shell, "seq 1 200000", output_limit=0)
        assert answer.content == "".join(f"{n}\n" for n in range(1, 200001))

    async def test_the_log_can_be_searched(self, shell: Shell) -> None:
        meta = (await run(shell, "seq 1 50000; echo 'needle in it'")).metadata
        search = shell.log.search
        (match,) = await asyncio.to_thread(search, "needle", start=meta.log_start)
        assert match.text == "needle in it"
        assert shell.log.read(match.offset, match.offset + 6) == b"needle"
        found = await asyncio.to_thread(search, "^4", start=meta.log_start, limit=7)
        assert len(found) == 7

    @pytest.mark.slow
    async def test_the_log_is_bounded_and_says_what_is_gone(self, shell: Shell) -> None:
        first = (await run(shell, "echo first")).metadata
        meta = (await run(shell, "yes 0123456789abcde | head -c 12000000")).metadata
        assert (meta.log_end - meta.log_start, meta.output_bytes) == (12_000_000, 12_000_000)
        log = shell.log
        assert log.path is not None
        assert log.path.stat().st_blocks * 512 < 6 << 20
        with pytest.raises(LogRangeGone, match=str(log.start)):
            log.read(first.log_start, first.log_end)
        assert set(log.read(log.start).split(b"\n")[1:-1]) == {b"0123456789abcde"}

    async def test_output_is_streamed_while_a_command_runs(self, shell: Shell) -> None:
        pieces: list[OutputProgress] = []
        first = asyncio.Event()

        def listen(piece: OutputProgress) -> None:
            pieces.append(piece)
            first.set()

        stop = shell.subscribe(listen)
        running = asyncio.create_task(run(shell, "printf one; read; printf two"))
        await first.wait()
        assert (b"".join(piece.data for piece in pieces), running.done()) == (b"one", False)
        await typed(shell, "\n")
        meta = (await running).metadata
        stop()
        await run(shell, "echo unheard")
        assert b"".join(piece.data for piece in pieces) == b"onetwo"
        assert [piece.offset for piece in pieces] == [meta.log_start, meta.log_start + 3]


class LeavesNothingBehind:
    async def test_a_cancelled_command_leaves_the_shell_usable(self, shell: Shell) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await run(shell, "echo $BASHPID; exec -a stay sleep 60 || sleep 60")
        assert await text(shell, "echo still here") == "still here\n"

    @pytest.mark.slow
    async def test_commands_cancelled_at_their_start_leave_the_shell_usable_at_once(
        self, shell: Shell
    ) -> None:
        await run(shell, "x=kept")
        for number in range(100):
            starting = asyncio.create_task(run(shell, "sleep 60"))
            for _ in range(number):
                await asyncio.sleep(0)
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            async with asyncio.timeout(20):
                assert await text(shell, f"echo {number} $x") == f"{number} kept\n"

    async def test_a_cancelled_command_that_ignores_signals_is_ended_too(
        self, shell: Shell
    ) -> None:
        await run(shell, "x=kept")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await run(shell, "bash -c 'trap \"\" INT TERM; sleep 60'")
        async with asyncio.timeout(30):
            assert await text(shell, "echo $x") == "kept\n"

    async def test_background_jobs_do_not_block(self, shell: Shell) -> None:
        async with asyncio.timeout(30):
            answer = await run(shell, "sleep 60 & sleep 60 | cat & (sleep 60; echo x) &")
        assert answer.exit_code == 0

    async def test_closing_ends_every_process(self, shell: Shell) -> None:
        mark = f"77{os.getpid()}"
        answer = await run(
            shell,
            f"sleep {mark}1 & setsid sleep {mark}2 & (setsid nohup sleep {mark}3 &>/dev/null &);"
            f" bash -c 'trap \"\" HUP TERM INT; sleep {mark}4; sleep {mark}5' &"
            f" env -i setsid -f sleep {mark}6; sleep {mark}7",
            timeout=0.5,
        )
        assert answer.metadata.state == "running"
        started = {f"{mark}{n}" for n in (1, 2, 3, 4, 6, 7)}
        while sleepers(mark) != started:
            await asyncio.sleep(0.01)
        await shell.aclose()
        assert sleepers(mark) == set()

    async def test_closing_a_shell_raises_in_waiting_calls(self, shell: Shell) -> None:
        waiting = asyncio.create_task(run(shell, "sleep 60"))
        while not shell.is_running:
            await asyncio.sleep(0)
        await shell.aclose()
        with pytest.raises(ShellClosed):
            await waiting

    async def test_a_closed_shell_rejects_commands(self, shell: Shell) -> None:
        await run(shell, "true")
        await shell.aclose()
        await shell.aclose()
        with pytest.raises(ShellClosed, match="closed"):
            await run(shell, "true")


class ChecksCommands:
    """A check decides on a command directly before the shell runs it."""

    async def test_a_check_sees_the_directory_and_the_types_of_command_names(
        self, shell: Shell
    ) -> None:
        await run(shell, "mkdir deep; cd deep; f() { :; }; ls() { :; }; alias g=ls")
        seen: list[object] = []

        async def check(checked: CommandPlace) -> None:
            names = ["ls", "cat", "cd", "if", "no such name", "f", "g", "it's"]
            seen.extend([checked.cwd.rpartition("/")[2], await checked.command_types(names)])

        answer = await shell.run(CmdRun("echo $?", timeout=20), check=check)
        types = ["function", "file", "builtin", "keyword", "", "function", "alias", ""]
        assert seen == ["deep", types]
        assert answer.content == "0\n"

    async def test_a_command_whose_check_fails_does_not_run(self, shell: Shell) -> None:
        async def refuse(_: CommandPlace) -> None:
            raise CommandInvalid("not this one")

        await run(shell, "false")
        with pytest.raises(CommandInvalid, match="not this one"):
            await shell.run(CmdRun("touch made", timeout=20), check=refuse)
        assert not shell.is_running
        assert await text(shell, "echo $?; ls") == "1\n"

    async def test_a_shell_that_ends_during_a_check_is_replaced_and_checked_again(
        self, shell: Shell
    ) -> None:
        pids: list[int] = []
        pid = int(await text(shell, "echo $$"))

        async def check(checked: CommandPlace) -> None:
            pids.append(pid)
            if len(pids) == 1:
                os.kill(pid, signal.SIGKILL)
                assert await checked.command_types(["ls"]) == ["unknown"]

        answer = await shell.run(CmdRun("echo alive", timeout=20), check=check)
        assert (answer.content, len(pids)) == ("alive\n", 2)

    async def test_a_running_program_is_not_checked(self, shell: Shell) -> None:
        async def refuse(_: CommandPlace) -> None:
            raise CommandInvalid("not this one")

        await started(shell, "echo ready; read x; echo $x")
        answer = await shell.run(CmdRun("typed", is_input=True, timeout=20), check=refuse)
        assert await read_on_until(shell, "typed", answer.content)


class ShellSuite(
    ChecksCommands,
    RemembersState,
    ShowsExactOutput,
    TakesAnyCommand,
    ReportsMetadata,
    KnowsTheEnd,
    TimesOut,
    TypesAndInterrupts,
    SurvivesItsEnd,
    LimitsOutput,
    LeavesNothingBehind,
):
    """All of the above. `shell` has a soft timeout of two seconds and a log of four megabytes."""
