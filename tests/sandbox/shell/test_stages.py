"""The stages of shells and commands: which follow which, and what a shell makes of an end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

import pytest

from bascule.core.errors import InternalError
from bascule.sandbox.shell.alarm import Alarm
from bascule.sandbox.shell.execution import Execution
from bascule.sandbox.shell.marks import CommandEnd
from bascule.sandbox.shell.output import CommandOutput
from bascule.sandbox.shell.stages import (
    COMMAND_TRANSITIONS,
    OUTPUT_TRANSITIONS,
    SHELL_TRANSITIONS,
    BashState,
    CommandStage,
    Interruption,
    OutputStage,
    ShellStage,
)

TABLES = [
    pytest.param(ShellStage, SHELL_TRANSITIONS, id="shell"),
    pytest.param(CommandStage, COMMAND_TRANSITIONS, id="command"),
    pytest.param(OutputStage, OUTPUT_TRANSITIONS, id="output"),
]
CALM_END = CommandEnd(3, -1, "himBs", "/bin", "/tmp")


def started(*, needs_marks: bool = False) -> BashState:
    state = BashState("/work", needs_marks=needs_marks)
    state.bash_started("/work")
    return state


def ended(
    state: BashState, end: CommandEnd = CALM_END, *, is_disturbed: bool = False
) -> ShellStage:
    state.command_ended(end, is_disturbed=is_disturbed)
    return state.stage


def state_at(stage: ShellStage) -> BashState:
    state = BashState("/work")
    state.recall(stage, cwd="/work", status=0, options="")
    return state


async def execution_at(
    stage: CommandStage = CommandStage.WAITING, output: OutputStage = OutputStage.EXPECTED
) -> Execution:
    loop = asyncio.get_running_loop()
    execution = Execution(nonce=b"", output=CommandOutput(0), loop=loop, alarm=Alarm(loop))
    execution.stage, execution.output_stage = stage, output
    return execution


@pytest.mark.parametrize("now", ShellStage)
@pytest.mark.parametrize("to", ShellStage)
def test_a_shell_follows_only_the_transitions_in_its_table(now: ShellStage, to: ShellStage) -> None:
    state = state_at(now)
    if to in SHELL_TRANSITIONS[now]:
        state.enter(to)
        assert state.stage is to
    else:
        with pytest.raises(InternalError, match=f"ShellStage .* from {now.name} to {to.name};"):
            state.enter(to)
        assert state.stage is now


@pytest.mark.parametrize("now", CommandStage)
@pytest.mark.parametrize("to", CommandStage)
async def test_a_command_follows_only_the_transitions_in_its_table(
    now: CommandStage, to: CommandStage
) -> None:
    execution = await execution_at(now)
    if to in COMMAND_TRANSITIONS[now]:
        execution.enter(to)
        assert execution.stage is to
    else:
        with pytest.raises(InternalError, match=f"CommandStage .* from {now.name} to {to.name};"):
            execution.enter(to)
        assert execution.stage is now


@pytest.mark.parametrize("now", OutputStage)
@pytest.mark.parametrize("to", OutputStage)
async def test_output_follows_only_the_transitions_in_its_table(
    now: OutputStage, to: OutputStage
) -> None:
    execution = await execution_at(output=now)
    if to in OUTPUT_TRANSITIONS[now]:
        execution.enter_output(to)
        assert execution.output_stage is to
    else:
        with pytest.raises(InternalError, match=f"OutputStage .* from {now.name} to {to.name};"):
            execution.enter_output(to)
        assert execution.output_stage is now


async def test_waiters_for_a_stage_are_released_by_a_later_stage() -> None:
    execution = await execution_at()
    waiting = [asyncio.create_task(execution.until(stage)) for stage in CommandStage]
    await asyncio.sleep(0)
    seen = []
    for stage in (CommandStage.SENT, CommandStage.OVER):
        execution.enter(stage)
        for _ in range(3):
            await asyncio.sleep(0)
        seen.append([each.done() for each in waiting])
    assert seen == [[True, True, False, False], [True, True, True, True]]


async def test_an_interruption_can_only_escalate() -> None:
    execution = await execution_at()
    steps = (Interruption.SIGNALLED, Interruption.ABANDONED, Interruption.SIGNALLED)
    seen = []
    for how in steps:
        execution.interrupt(how)
        seen.append(execution.interruption)
    assert seen == [Interruption.SIGNALLED, Interruption.ABANDONED, Interruption.ABANDONED]


@pytest.mark.parametrize(("stages", "table"), TABLES)
def test_every_stage_is_reachable_and_none_follows_itself(
    stages: type[Enum], table: Mapping[Enum, frozenset[Enum]]
) -> None:
    first, *others = stages
    reached, left = {first}, [first]
    while left:
        following = table[left.pop()] - reached
        reached |= following
        left += following
    assert reached == {first, *others}
    assert [stage for stage in stages if stage in table[stage]] == []


@pytest.mark.parametrize("table", [COMMAND_TRANSITIONS, OUTPUT_TRANSITIONS])
def test_a_command_never_returns_to_an_earlier_stage(
    table: Mapping[CommandStage | OutputStage, frozenset[CommandStage | OutputStage]],
) -> None:
    assert all(to > now for now, following in table.items() for to in following)


def test_a_shell_can_be_closed_at_any_stage_and_only_once() -> None:
    for stage in ShellStage:
        closes = ShellStage.CLOSED in SHELL_TRANSITIONS[stage]
        assert closes == (stage is not ShellStage.CLOSED)


def test_a_closed_shell_stays_closed() -> None:
    state = started()
    state.enter(ShellStage.CLOSED)
    assert state.is_closed
    for change in (state.bash_ended, lambda: state.bash_started("/"), lambda: ended(state)):
        with pytest.raises(InternalError, match="followed by nothing"):
            change()
    assert state.is_closed


def test_a_shell_is_settled_once_a_command_has_ended_in_its_bash() -> None:
    state = BashState("/work")
    seen = [state.is_settled]
    for change in (lambda: state.bash_started("/work"), lambda: ended(state), state.bash_ended):
        change()
        seen.append(state.is_settled)
    assert seen == [False, False, True, False]


def test_an_end_reports_status_options_and_directory() -> None:
    state = started()
    ended(state)
    assert (state.status, state.options, state.cwd) == (3, "himBs", "/tmp")
    ended(state, replace(CALM_END, cwd=""))  # `unset PWD`
    assert state.cwd == "/tmp"


def test_only_a_calm_end_makes_a_shell_calm() -> None:
    state = started()
    noisy = replace(CALM_END, is_calm=False)
    assert [ended(state, end) for end in (CALM_END, CALM_END, noisy, noisy, CALM_END)] == [
        *(ShellStage.CALM, ShellStage.CALM),
        *(ShellStage.NOISY, ShellStage.NOISY, ShellStage.CALM),
    ]


def test_a_kind_of_shell_that_needs_marks_is_never_calm() -> None:
    assert ended(started(needs_marks=True)) is ShellStage.NOISY


def test_a_disturbed_shell_is_disturbed_until_its_bash_ends() -> None:
    state = started()
    assert ended(state, is_disturbed=True) is ShellStage.DISTURBED
    assert ended(state) is ShellStage.DISTURBED
    state.bash_ended()
    assert (state.status, state.options, state.cwd) == (0, "", "/tmp")
    state.bash_started("/elsewhere")
    assert state.cwd == "/elsewhere"
    assert ended(state) is ShellStage.CALM
