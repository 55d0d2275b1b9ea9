"""OpenHands' kinds, fields and defaults (V0, 0.62), written out: a peer relies on each of them.

Fields of our own that the classes have besides are named apart, so that adding one is a decision.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bascule.core.actions import Action
from bascule.core.kinds import ACTIONS, OBSERVATIONS
from bascule.core.observations import CellMetadata, CmdMetadata, Observation

REQUIRED = object()

ACTION_FIELDS: dict[str, dict[str, Any]] = {
    "run": {
        "command": REQUIRED,
        "is_input": False,
        "thought": "",
        "blocking": False,
        "is_static": False,
        "cwd": None,
        "hidden": False,
        "confirmation_state": "confirmed",
        "security_risk": -1,
    },
    "run_ipython": {
        "code": REQUIRED,
        "thought": "",
        "include_extra": True,
        "confirmation_state": "confirmed",
        "security_risk": -1,
        "kernel_init_code": "",
    },
    "read": {
        "path": REQUIRED,
        "start": 0,
        "end": -1,
        "thought": "",
        "security_risk": -1,
        "impl_source": "default",
        "view_range": None,
    },
    "write": {
        "path": REQUIRED,
        "content": REQUIRED,
        "start": 0,
        "end": -1,
        "thought": "",
        "security_risk": -1,
    },
    "edit": {
        "path": REQUIRED,
        "command": "",
        "file_text": None,
        "old_str": None,
        "new_str": None,
        "insert_line": None,
        "content": "",
        "start": 1,
        "end": -1,
        "thought": "",
        "security_risk": -1,
        "impl_source": "oh_aci",
    },
    "browse": {"url": REQUIRED, "thought": "", "security_risk": -1, "return_axtree": False},
    "browse_interactive": {
        "browser_actions": REQUIRED,
        "thought": "",
        "browsergym_send_msg_to_user": "",
        "security_risk": -1,
        "return_axtree": False,
    },
    "call_tool_mcp": {"name": REQUIRED, "arguments": {}, "thought": "", "security_risk": -1},
    "null": {},
    "message": {
        "content": REQUIRED,
        "file_urls": None,
        "image_urls": None,
        "wait_for_response": False,
        "security_risk": -1,
    },
    "system": {
        "content": REQUIRED,
        "tools": None,
        "openhands_version": None,  # theirs is the version installed, and ours is none
        "agent_class": None,
    },
    "think": {"thought": ""},
    "finish": {"final_thought": "", "outputs": {}, "thought": ""},
    "reject": {"outputs": {}, "thought": ""},
    "delegate": {"agent": REQUIRED, "inputs": REQUIRED, "thought": ""},
    "recall": {"recall_type": REQUIRED, "query": "", "thought": ""},
    "change_agent_state": {"agent_state": REQUIRED, "thought": ""},
    "condensation": {
        "forgotten_event_ids": None,
        "forgotten_events_start_id": None,
        "forgotten_events_end_id": None,
        "summary": None,
        "summary_offset": None,
    },
    "condensation_request": {},
    "task_tracking": {"command": "view", "task_list": (), "thought": ""},
    "loop_recovery": {"option": 1},
}

OUR_ACTION_FIELDS: dict[str, dict[str, Any]] = {
    "run": {"shell": "", "output_limit": None, "queue": False},
    "run_ipython": {"is_input": False, "output_limit": None},
    "edit": {"view_range": None},
}

OUR_ACTIONS = {
    *("mkdir", "rmdir", "rm", "list", "glob", "grep", "interrupt", "diagnostics", "symbols"),
    *("checkpoints", "checkpoint", "restore"),
    *("selection", "open_file", "show_diff", "ask_user", "vscode_command", "bridge"),
    *("language", "rename_symbol", "apply_code_action", "format", "organize_imports"),
    *("debug_configurations", "set_breakpoints", "debug_start", "debug_continue", "debug_step"),
    *("debug_pause", "debug_state", "debug_evaluate", "debug_set_variable", "debug_stop"),
    *("list_tests", "run_tests", "test_results"),
    *("read_cells", "edit_cells", "run_cells"),
    *("list_tasks", "run_task", "stop_task", "list_running", "read_terminal"),
    *("git_status", "git_diff", "git_stage", "git_unstage", "git_commit"),
    *("open_editors", "list_ports", "screenshot"),
}

OBSERVATION_FIELDS: dict[str, dict[str, Any]] = {
    "run": {"command": REQUIRED, "metadata": CmdMetadata(), "hidden": False},
    "run_ipython": {"code": REQUIRED, "image_urls": None},
    "read": {"path": REQUIRED, "impl_source": "default"},
    "write": {"path": REQUIRED},
    "edit": {
        "path": "",
        "prev_exist": False,
        "old_content": None,
        "new_content": None,
        "impl_source": "llm_based_edit",
        "diff": None,
        "_diff_cache": None,
    },
    "browse": {
        "url": REQUIRED,
        "trigger_by_action": REQUIRED,
        "screenshot": "",
        "screenshot_path": None,
        "set_of_marks": "",
        "error": False,
        "goal_image_urls": (),
        "open_pages_urls": (),
        "active_page_index": -1,
        "dom_object": {},
        "axtree_object": {},
        "extra_element_properties": {},
        "last_browser_action": "",
        "last_browser_action_error": "",
        "focused_element_bid": "",
        "filter_visible_only": False,
    },
    "error": {"error_id": ""},
    "download": {"file_path": REQUIRED},
    "mcp": {"name": "", "arguments": {}},
    "task_tracking": {"command": "", "task_list": ()},
    "null": {},
    "success": {},
    "user_rejected": {},
    "condense": {},
    "think": {},
    "loop_detection": {},
    "delegate": {"outputs": REQUIRED},
    "agent_state_changed": {"agent_state": REQUIRED, "reason": ""},
    "recall": {
        "recall_type": REQUIRED,
        "repo_name": "",
        "repo_directory": "",
        "repo_branch": "",
        "repo_instructions": "",
        "runtime_hosts": {},
        "additional_agent_instructions": "",
        "date": "",
        "custom_secrets_descriptions": {},
        "conversation_instructions": "",
        "working_dir": "",
        "microagent_knowledge": (),
    },
}

OUR_OBSERVATIONS = {
    *("mkdir", "rmdir", "rm", "list", "glob", "grep", "interrupt", "diagnostics", "symbols"),
    *("checkpoints", "checkpoint", "restore"),
    *("selection", "open_file", "show_diff", "ask_user", "vscode_command", "bridge"),
    *("language", "code_changed"),
    *("debug_configurations", "breakpoints", "debug_state", "debug_evaluate"),
    *("list_tests", "test_results"),
    "cells",
    *("list_tasks", "task", "list_running", "read_terminal"),
    *("git_status", "git_diff"),
    *("open_editors", "list_ports", "screenshot"),
}

METADATA_FIELDS: dict[str, Any] = {
    "exit_code": -1,
    "pid": -1,
    "username": None,
    "hostname": None,
    "working_dir": None,
    "py_interpreter_path": None,
    "prefix": "",
    "suffix": "",
}


OUR_OBSERVATION_FIELDS: dict[str, dict[str, Any]] = {
    "run_ipython": {"metadata": CellMetadata()},
    "read": {"error_id": ""},
    "edit": {"error_id": ""},
}
"""Told to our own clients only; theirs refuse what they do not know."""


def own_fields(cls: type, base: type | None = None) -> dict[str, Any]:
    """Fields of `cls` that `base` has not, with their defaults."""
    around = {field.name for field in dataclasses.fields(base)} if base else set()
    found: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if field.name in around:
            continue
        if field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
        else:
            given = field.default is not dataclasses.MISSING
            found[field.name] = field.default if given else REQUIRED
    return found


@pytest.mark.parametrize("kind", ACTION_FIELDS)
def test_an_action_has_the_fields_and_defaults_of_openhands(kind: str) -> None:
    fields = own_fields(ACTIONS[kind], Action)

    assert fields == {**ACTION_FIELDS[kind], **OUR_ACTION_FIELDS.get(kind, {})}


@pytest.mark.parametrize("kind", OBSERVATION_FIELDS)
def test_an_observation_has_the_fields_and_defaults_of_openhands(kind: str) -> None:
    fields = own_fields(OBSERVATIONS[kind], Observation)

    assert fields == {**OBSERVATION_FIELDS[kind], **OUR_OBSERVATION_FIELDS.get(kind, {})}


def test_metadata_begins_with_the_fields_and_defaults_of_openhands() -> None:
    fields = own_fields(CmdMetadata)

    assert dict(list(fields.items())[: len(METADATA_FIELDS)]) == METADATA_FIELDS
    assert REQUIRED not in fields.values()


def test_all_other_kinds_are_declared_as_bascule_kinds() -> None:
    assert ACTIONS.keys() == ACTION_FIELDS.keys() | OUR_ACTIONS
    assert OBSERVATIONS.keys() == OBSERVATION_FIELDS.keys() | OUR_OBSERVATIONS


def test_bascule_kinds_do_not_redefine_openhands_kinds() -> None:
    assert OUR_ACTIONS.isdisjoint(ACTION_FIELDS)
    assert OUR_OBSERVATIONS.isdisjoint(OBSERVATION_FIELDS)
