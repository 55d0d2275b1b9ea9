"""Rules decide on the actions of a sandbox: real bash, and people who answer or do not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bascule.core.actions import Action, CmdRun, FileEdit, FileWrite, Interrupt, IPythonRun
from bascule.core.errors import InvalidSetting
from bascule.core.observations import CmdOutput, Error, Observation
from bascule.rules import CommandVerdict, Rules
from bascule.rules.rule_files import WORKSPACE_FILE
from bascule.sandbox.command_questions import ApprovalAnswer, CommandQuestion
from bascule.sandbox.command_rules import CommandRules
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellKind, ShellSettings

STRICT = CommandRules(
    rules=Rules.of(allow=[["echo"], ["ls"], ["pwd"]], ask=[["date"]], deny=[["touch"]])
)
LENIENT = replace(STRICT, default=CommandVerdict.ALLOW)


class Person:
    """Answers questions with `answers` in turn, and keeps them."""

    def __init__(self, *answers: ApprovalAnswer) -> None:
        self.questions: list[CommandQuestion] = []
        self._answers = list(answers)

    async def __call__(self, question: CommandQuestion) -> ApprovalAnswer:
        self.questions.append(question)
        return self._answers.pop(0)


@asynccontextmanager
async def ruled(
    workspace: Path, rules: CommandRules | None, *, kind: ShellKind = "pty", load_rc: bool = False
) -> AsyncIterator[Sandbox]:
    shells = ShellSettings(working_dir=workspace, kind=kind, load_rc=load_rc)
    settings = SandboxSettings(shells=shells, rules=rules)
    async with await asyncio.to_thread(Sandbox, settings) as sandbox:
        yield sandbox


@pytest.fixture
async def strict(tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with ruled(tmp_path, STRICT) as sandbox:
        yield sandbox


@pytest.fixture
async def lenient(tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with ruled(tmp_path, LENIENT) as sandbox:
        yield sandbox


def put_person(sandbox: Sandbox, *answers: ApprovalAnswer) -> Person:
    assert sandbox.gate is not None
    person = Person(*answers)
    sandbox.gate.ask = person
    return person


async def run(sandbox: Sandbox, command: str, **fields: object) -> Observation:
    return await sandbox.act(CmdRun(command, **{"timeout": 20, **fields}))  # type: ignore[arg-type]


def code(seen: Observation) -> str:
    assert isinstance(seen, Error), seen
    return seen.error_id


def output(seen: Observation) -> str:
    assert isinstance(seen, CmdOutput), seen
    return seen.content


async def test_without_rules_there_is_no_gate_and_aliases_work(tmp_path: Path) -> None:
    async with ruled(tmp_path, None) as sandbox:
        assert sandbox.gate is None
        await run(sandbox, "alias hi='echo hello'")
        assert output(await run(sandbox, "hi")) == "hello\n"


async def test_a_denied_command_does_not_run_and_names_rule_and_reason(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[deny]]\nrun = ["touch"]\nwhy = "Files are made by hand"\n')
    rules = await asyncio.to_thread(CommandRules.read, file)
    async with ruled(tmp_path, rules) as sandbox:
        seen = await run(sandbox, "cd . && touch made")

    assert code(seen) == "rule.denied"
    assert f"a rule denies `touch`: Files are made by hand ({file}:1)" in seen.content
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("more", [{}, {"is_static": True}, {"shell": "other"}, {"queue": True}])
async def test_no_kind_of_command_bypasses_the_rules(
    strict: Sandbox, tmp_path: Path, more: dict[str, object]
) -> None:
    assert code(await run(strict, "touch made", **more)) == "rule.denied"
    assert code(await run(strict, "cp a b", **more)) == "consent.denied"
    assert output(await run(strict, "echo allowed", **more)) == "allowed\n"
    assert not (tmp_path / "made").exists()


async def test_without_anyone_to_ask_the_error_is_immediate(strict: Sandbox) -> None:
    seen = await run(strict, "echo 1; make")
    assert code(seen) == "consent.denied"
    assert "nobody can be asked here: `make`: no rule allows it" in seen.content


async def test_an_approval_lets_exactly_this_command_run_once(strict: Sandbox) -> None:
    person = put_person(strict, "once", "deny")
    action = CmdRun("cat /dev/null; echo 1", timeout=20)
    assert output(await strict.act(action)) == "1\n"
    assert code(await run(strict, "cat /dev/null; echo 1")) == "consent.denied"

    first, second = person.questions
    assert (first.action.id, first.text) == (action.id, action.command)
    assert first.id != second.id
    assert [(part.text, part.verdict.value) for part in first.parts] == [
        ("cat /dev/null", "ask"),
        ("echo 1", "allow"),
    ]
    assert [list(each.rule.words) for each in first.proposals] == [["cat"]]


async def test_a_question_shows_text_parts_rules_to_add_and_answers(strict: Sandbox) -> None:
    person = put_person(strict, "deny", "deny")
    await run(strict, "make \u202etest > ../x")
    await run(strict, "git commit -m x")

    odd, plain = (each.as_json() for each in person.questions)
    assert odd["detail"] == "make <U+202E>test > ../x"
    assert odd["choices"] == ["once", "deny"]
    assert plain["parts"] == [
        {"text": "git commit -m x", "verdict": "ask", "reason": "no rule allows it"}
    ]
    assert plain["proposals"] == [{"rule": ["git", "commit"], "text": "git commit"}]
    assert plain["choices"] == ["once", "always", "deny"]
    assert plain["kind"] == "run"


async def test_an_unanswered_question_times_out(
    tmp_path: Path,
) -> None:
    async with ruled(tmp_path, replace(STRICT, question_timeout=0.05)) as sandbox:
        assert sandbox.gate is not None
        withdrawn = asyncio.Event()

        async def never(_: CommandQuestion) -> ApprovalAnswer:
            try:
                await asyncio.Event().wait()
            finally:
                withdrawn.set()
            raise AssertionError

        sandbox.gate.ask = never
        seen = await run(sandbox, "make")
        assert code(seen) == "consent.denied"
        assert "nobody answered within 0.05 seconds" in seen.content
        assert withdrawn.is_set()
        assert output(await run(sandbox, "echo usable")) == "usable\n"


async def test_a_question_waits_no_longer_than_the_timeout_of_its_action(strict: Sandbox) -> None:
    assert strict.gate is not None

    async def never(_: CommandQuestion) -> ApprovalAnswer:
        await asyncio.Event().wait()
        raise AssertionError

    strict.gate.ask = never
    assert "within 0.1 seconds" in (await run(strict, "make", timeout=0.1)).content


async def test_the_shell_stays_usable_while_a_question_is_open(
    strict: Sandbox, tmp_path: Path
) -> None:
    """What was approved for one directory is asked about again in another."""
    (tmp_path / "sub").mkdir()
    assert strict.gate is not None
    directories: list[str] = []

    async def meanwhile(_: CommandQuestion) -> ApprovalAnswer:
        if not directories:
            await run(strict, "cd sub")
        directories.append(output(await run(strict, "pwd")).strip())
        return "once"

    strict.gate.ask = meanwhile
    assert output(await run(strict, "basename $PWD")) == "sub\n"
    assert directories == [f"{tmp_path}/sub"] * 2


async def test_a_cancelled_action_withdraws_its_question(strict: Sandbox) -> None:
    assert strict.gate is not None
    asked, withdrawn = asyncio.Event(), asyncio.Event()

    async def never(_: CommandQuestion) -> ApprovalAnswer:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()
        raise AssertionError

    strict.gate.ask = never
    acting = asyncio.create_task(run(strict, "make"))
    await asked.wait()
    acting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await acting
    assert withdrawn.is_set()


async def test_new_rules_answer_an_open_question(strict: Sandbox) -> None:
    assert strict.gate is not None
    gate = strict.gate

    async def changes_rules(_: CommandQuestion) -> ApprovalAnswer:
        more = Rules.of(allow=[["basename"]])
        gate.change(replace(gate.rules, rules=gate.rules.rules + more))
        await asyncio.Event().wait()
        raise AssertionError

    gate.ask = changes_rules
    assert output(await run(strict, "basename a/b")) == "b\n"


# The default allow ---------------------------------------------------------------------------


async def test_where_the_default_is_allow_only_rules_stop_a_command(
    lenient: Sandbox, tmp_path: Path
) -> None:
    person = put_person(lenient, "deny")
    assert output(await run(lenient, "f() { basename a/b; }; x=1; f > ../out; cat ../out")) == "b\n"
    (tmp_path.parent / "out").unlink()
    assert code(await run(lenient, "f() { touch made; }; f")) == "rule.denied"
    assert code(await run(lenient, "date")) == "consent.denied"
    assert len(person.questions) == 1
    assert not (tmp_path / "made").exists()
    written = await lenient.act(FileWrite(".envrc", "x"))
    assert not isinstance(written, Error)


# Rules of the workspace ----------------------------------------------------------------------


async def test_the_file_of_the_workspace_adds_ask_and_deny_and_is_read_when_it_changes(
    lenient: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / WORKSPACE_FILE
    file.parent.mkdir()
    assert output(await run(lenient, "ls")) == ""
    file.write_text('[[deny]]\nrun = ["ls"]\n')
    assert code(await run(lenient, "ls")) == "rule.denied"
    file.write_text('[[deny]]\nrun = ["pwd"]\n')
    assert output(await run(lenient, "ls")) == ""
    file.write_text('[[allow]]\nrun = ["ls"]\n[[deny]]\nrun = ["pwd"]\n')
    assert code(await run(lenient, "pwd")) == "rule.denied"
    assert "ignored, because a workspace can only add" in caplog.text
    file.write_text("[[allowed]]\n")
    assert code(await run(lenient, "ls")) == "setting.invalid"
    file.unlink()
    assert output(await run(lenient, "ls")) == ""


# Other kinds of actions ----------------------------------------------------------------------


@pytest.mark.slow
async def test_input_to_a_running_program_is_never_allowed_by_a_rule_for_commands(
    strict: Sandbox,
) -> None:
    person = put_person(strict, "once", "deny", "once")
    started = await run(strict, "read x; echo $x", timeout=0.2)
    assert isinstance(started, CmdOutput)
    assert started.metadata.state == "running"

    assert code(await run(strict, "echo hi", is_input=True)) == "consent.denied"
    assert isinstance(await run(strict, "", timeout=0.05), CmdOutput), "reading on needs no answer"
    assert output(await run(strict, "ls", is_input=True)) == "ls\n"
    assert [each.choices for each in person.questions[1:]] == [("once", "deny")] * 2
    assert "input to a running program" in person.questions[1].reason


@pytest.mark.slow
async def test_a_running_program_can_be_interrupted_without_a_question(strict: Sandbox) -> None:
    put_person(strict, "once")
    await run(strict, "sleep 60", timeout=0.2)
    assert output(await run(strict, "C-c", is_input=True)).strip() == ""
    assert not isinstance(await strict.act(Interrupt()), Error)


@pytest.mark.parametrize(
    "action",
    [
        IPythonRun("1 + 1"),
        FileWrite(".git/hooks/pre-commit", "x"),
        FileWrite("sub/../.envrc", "x"),
        FileEdit("a.code-workspace", command="create", file_text="{}"),
        FileEdit(WORKSPACE_FILE, command="create", file_text=""),
    ],
    ids=lambda action: action.kind,
)
async def test_cells_and_writes_to_protected_files_ask(
    strict: Sandbox, tmp_path: Path, action: Action
) -> None:
    person = put_person(strict, "deny")
    before = sorted(tmp_path.rglob("*"))
    assert code(await strict.act(action)) == "consent.denied"
    assert len(person.questions) == 1
    assert sorted(tmp_path.rglob("*")) == before


async def test_other_files_are_written_without_a_question(strict: Sandbox) -> None:
    assert not isinstance(await strict.act(FileWrite("note", "x")), Error)
    assert not isinstance(await strict.act(FileEdit("note", command="view")), Error)


# The shell remembers -------------------------------------------------------------------------


async def test_decisions_use_the_current_directory_of_the_shell(
    strict: Sandbox, tmp_path: Path
) -> None:
    (tmp_path / "sub/deep").mkdir(parents=True)
    assert output(await run(strict, "cd sub/deep && echo x > ../../a")) == ""
    assert code(await run(strict, "echo x > ../../../b")) == "consent.denied"
    assert (tmp_path / "a").exists()


@pytest.mark.parametrize("is_static", [False, True])
async def test_a_directory_given_with_the_command_is_decided_on_like_cd(
    strict: Sandbox, tmp_path: Path, is_static: bool
) -> None:
    (tmp_path / "sub").mkdir()
    inside = await run(strict, "pwd", cwd="sub", is_static=is_static)
    assert output(inside) == f"{tmp_path}/sub\n"
    where = str(tmp_path.parent)
    outside = await run(strict, "pwd", cwd=where, is_static=is_static)
    assert code(outside) == "consent.denied"
    assert "leaves the workspace" in outside.content


@pytest.mark.parametrize("kind", ["pty", pytest.param("tmux", marks=pytest.mark.slow)])
async def test_a_command_name_redefined_as_a_function_asks(tmp_path: Path, kind: ShellKind) -> None:
    async with ruled(tmp_path, STRICT, kind=kind) as sandbox:
        person = put_person(sandbox, "once", "deny", "once")
        assert output(await run(sandbox, "ls")) == ""
        assert output(await run(sandbox, "ls() { echo not ls; }")) == ""
        seen = await run(sandbox, "echo $(ls)")
        assert code(seen) == "consent.denied"
        assert "`ls` is a function of this shell, no program" in seen.content
        assert output(await run(sandbox, "ls")) == "not ls\n"
        assert output(await run(sandbox, "ls", shell="other")) == ""
        assert len(person.questions) == 3


async def test_aliases_are_disabled_and_an_enabled_alias_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".bashrc").write_text("alias ls='echo not ls'\nshopt -s expand_aliases\n")
    async with ruled(tmp_path, STRICT, load_rc=True) as sandbox:
        assert output(await run(sandbox, "ls")) == ""
        put_person(sandbox, "once", "deny")
        await run(sandbox, "shopt -s expand_aliases")
        assert "`ls` is an alias of this shell" in (await run(sandbox, "ls")).content


async def test_an_unknown_command_name_is_passed_to_bash(strict: Sandbox) -> None:
    assert strict.gate is not None
    rules = Rules.of(allow=[["no-such-program"]])
    strict.gate.change(replace(STRICT, rules=rules))
    assert "no-such-program: command not found" in output(await run(strict, "no-such-program"))


async def test_the_last_exit_status_survives_the_type_query_to_bash(
    strict: Sandbox,
) -> None:
    await run(strict, "false")
    assert output(await run(strict, "echo $?")) == "1\n"


async def test_set_x_does_not_disturb_the_type_query_to_bash(strict: Sandbox) -> None:
    put_person(strict, "once", "once")
    await run(strict, "set -x")
    assert output(await run(strict, "echo traced")) == "++ echo traced\ntraced\n"


async def test_a_shell_that_ended_is_replaced_before_the_decision(
    strict: Sandbox, tmp_path: Path
) -> None:
    put_person(strict, "once", "once")
    await run(strict, "ls() { echo not ls; }")
    await run(strict, "exit 3")
    assert output(await run(strict, "ls")) == ""


@pytest.mark.slow
async def test_a_decision_costs_at_most_ten_milliseconds(strict: Sandbox) -> None:
    """CPU time of this process and of the parser, for new texts, above that of the commands alone.

    CPU time, because other programs on a busy machine take none of it.
    """

    async def cost(sandbox: Sandbox, word: str) -> float:
        await run(sandbox, "echo first")
        before = _cpu_seconds()
        for number in range(100):
            seen = await run(sandbox, f"echo {word}{number} | ls > /dev/null")
            assert isinstance(seen, CmdOutput)
        return (_cpu_seconds() - before) / 100

    with_rules = await cost(strict, "a")
    async with ruled(strict.settings.shells.working_dir, None) as free:
        without = await cost(free, "b")
    assert with_rules - without <= 0.010, (with_rules, without)


def _cpu_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


# Reading rules -------------------------------------------------------------------------------


def test_rules_survive_serialization_to_another_process() -> None:
    assert CommandRules.from_json(LENIENT.as_json()) == LENIENT


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.pop("rules"),
        lambda value: value.update(default="deny"),
        lambda value: value.update(default="maybe"),
        lambda value: value["rules"].update(allow=[[[], "", ""]]),
        lambda value: value.update(question_timeout="soon"),
    ],
)
def test_invalid_serialized_rules_are_rejected(
    change: Callable[[dict[str, object]], object],
) -> None:
    value = STRICT.as_json()
    change(value)
    with pytest.raises(InvalidSetting):
        CommandRules.from_json(value)


# Counts -------------------------------------------------------------------------------------


async def decided(sandbox: Sandbox) -> dict[str, tuple[int, str]]:
    """Number of commands and last command of each rule that decided."""
    assert sandbox.gate is not None
    return {
        f"{each['verdict']} {each['rule']}": (each["count"], each["last_command"])
        for each in await sandbox.gate.report()
        if each["count"]
    }


async def test_each_rule_counts_the_commands_that_it_decided_on(strict: Sandbox) -> None:
    put_person(strict, "once", "deny")
    await run(strict, "echo 1; echo 2 | ls /dev/null")
    await run(strict, "echo 3")
    await run(strict, "touch made")
    await run(strict, "echo 4; date")
    await run(strict, "echo 5; date")

    assert await decided(strict) == {
        "allow echo": (3, "echo 4; date"),
        "allow ls": (1, "echo 1; echo 2 | ls /dev/null"),
        "ask date": (2, "echo 5; date"),
        "deny touch": (1, "touch made"),
    }


async def test_a_command_that_is_asked_about_twice_counts_once(strict: Sandbox) -> None:
    assert strict.gate is not None
    asked: asyncio.Queue[CommandQuestion] = asyncio.Queue()

    async def nobody(question: CommandQuestion) -> ApprovalAnswer:
        asked.put_nowait(question)
        return await asyncio.Future()

    strict.gate.ask = nobody
    running = asyncio.create_task(run(strict, "date"))
    await asked.get()
    strict.gate.change(replace(STRICT, question_timeout=60))
    await asked.get()
    assert await decided(strict) == {"ask date": (1, "date")}
    running.cancel()
    await asyncio.wait({running})


async def test_rules_of_the_workspace_are_reported_as_such(tmp_path: Path) -> None:
    file = tmp_path / WORKSPACE_FILE
    file.parent.mkdir()
    file.write_text('[[deny]]\nrun = ["echo"]\nwhy = "Be quiet"\n')
    async with ruled(tmp_path, LENIENT) as sandbox:
        await run(sandbox, "echo 1")
        await run(sandbox, "pwd")
        assert sandbox.gate is not None
        report = await sandbox.gate.report()
        of_workspace = [each for each in report if each["owner"] == "workspace"]
        assert [(each["verdict"], each["rule"], each["count"]) for each in of_workspace] == [
            ("deny", "echo", 1)
        ]
        assert of_workspace[0]["origin"] == f"{file}:1"
        assert of_workspace[0]["why"] == "Be quiet"
        assert await decided(sandbox) == {"deny echo": (1, "echo 1"), "allow pwd": (1, "pwd")}
