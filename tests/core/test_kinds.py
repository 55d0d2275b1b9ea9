"""The tables of kinds are complete, and what is in them are values."""

from __future__ import annotations

from types import ModuleType

import pytest

from bascule.core import (
    actions,
    agent_test_actions,
    agent_test_observations,
    editor_actions,
    editor_observations,
    git_events,
    notebook_events,
    observations,
    task_events,
    view_events,
)
from bascule.core.actions import NOT_EXECUTABLE, Action, CmdRun, FileRead, Null
from bascule.core.contracts import MANDATORY_CAPABILITIES
from bascule.core.identity import EventId
from bascule.core.kinds import ACTIONS, OBSERVATIONS
from bascule.core.observations import CmdMetadata, CmdOutput, Observation


def subclasses(base: type, *modules: ModuleType) -> set[type]:
    return {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    }


def test_every_action_is_in_the_table_under_its_kind() -> None:
    assert set(ACTIONS.values()) == subclasses(
        Action,
        *(actions, editor_actions, agent_test_actions, notebook_events, task_events),
        *(git_events, view_events),
    )
    assert all(cls.kind == kind for kind, cls in ACTIONS.items())
    assert "" not in ACTIONS


def test_every_observation_is_in_the_table_under_its_kind() -> None:
    assert set(OBSERVATIONS.values()) == subclasses(
        Observation,
        observations,
        editor_observations,
        agent_test_observations,
        notebook_events,
        task_events,
        *(git_events, view_events),
    )
    assert all(cls.kind == kind for kind, cls in OBSERVATIONS.items())
    assert "" not in OBSERVATIONS


@pytest.mark.parametrize(
    "cls", [*ACTIONS.values(), *OBSERVATIONS.values()], ids=lambda cls: cls.__name__
)
def test_events_are_frozen_and_have_slots(cls: type) -> None:
    parameters = cls.__dataclass_params__  # type: ignore[attr-defined]

    assert parameters.frozen
    assert "__slots__" in vars(cls)


def test_mandatory_and_non_executable_capabilities_are_action_kinds() -> None:
    assert ACTIONS.keys() > MANDATORY_CAPABILITIES
    assert ACTIONS.keys() > NOT_EXECUTABLE
    assert MANDATORY_CAPABILITIES.isdisjoint(NOT_EXECUTABLE)


def test_each_executable_kind_is_answered_by_an_observation_of_its_name() -> None:
    changes = ("rename_symbol", "apply_code_action", "format", "organize_imports")
    answered_otherwise = {"browse_interactive": "browse", "call_tool_mcp": "mcp"}
    answered_otherwise |= dict.fromkeys(changes, "code_changed")
    moves = ("debug_start", "debug_continue", "debug_step", "debug_pause", "debug_stop")
    answered_otherwise |= dict.fromkeys(moves, "debug_state")
    answered_otherwise |= {"run_tests": "test_results"}
    answered_otherwise |= {"set_breakpoints": "breakpoints", "debug_set_variable": "debug_evaluate"}
    answered_otherwise |= dict.fromkeys(("read_cells", "edit_cells", "run_cells"), "cells")
    answered_otherwise |= dict.fromkeys(("run_task", "stop_task"), "task")
    answered_otherwise |= dict.fromkeys(("git_stage", "git_unstage", "git_commit"), "git_status")
    executable = ACTIONS.keys() - NOT_EXECUTABLE

    assert {answered_otherwise.get(kind, kind) for kind in executable} <= OBSERVATIONS.keys()


def test_events_compare_and_print_as_dataclasses_do() -> None:
    one, same = CmdRun("ls", id=EventId("1")), CmdRun("ls", id=EventId("1"))

    assert one == same
    assert one != CmdRun("pwd", id=EventId("1"))
    assert one != FileRead("ls", id=EventId("1"))
    assert hash(Null(id=EventId("1"), unknown=())) == hash(Null(id=EventId("1"), unknown=()))  # type: ignore[arg-type]
    assert repr(one).startswith("CmdRun(id='1', timestamp=None, ")
    assert "command='ls', is_input=False" in repr(one)


def test_each_event_has_an_id_of_its_own() -> None:
    assert CmdRun("ls").id != CmdRun("ls").id
    assert CmdRun("ls", id=CmdRun("").id) != CmdRun("ls")


def test_exit_code_comes_from_the_metadata() -> None:
    assert CmdOutput(command="ls").exit_code == -1
    assert CmdOutput(command="ls", metadata=CmdMetadata(exit_code=3)).exit_code == 3
