"""All kinds of actions and observations. The classes for editors are loaded on first use.

A third of all classes are for editors. A sandbox never uses these classes, and loading them would
make its start a tenth slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from .actions import BASE_ACTIONS, Action
from .observations import BASE_OBSERVATIONS, Observation

_Event = TypeVar("_Event", Action, Observation)


class KindTable(Mapping[str, type[_Event]], Generic[_Event]):
    """Event classes by their `kind`. Listing the kinds loads no class. Looking up a kind may load
    the classes for editors."""

    def __init__(
        self,
        base: Iterable[type[_Event]],
        editor_kinds: Iterable[str],
        load_editor_classes: Callable[[], Iterable[type[_Event]]],
    ) -> None:
        self._classes: dict[str, type[_Event] | None] = {cls.kind: cls for cls in base}
        self._classes |= dict.fromkeys(editor_kinds)
        self._load_editor_classes: Callable[[], Iterable[type[_Event]]] = load_editor_classes

    def __getitem__(self, kind: str) -> type[_Event]:
        found = self._classes[kind]
        if found is None:
            self._classes |= {cls.kind: cls for cls in self._load_editor_classes()}
            found = self._classes[kind]
            assert found is not None
        return found

    def __contains__(self, kind: object) -> bool:
        return kind in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


def _editor_actions() -> Iterable[type[Action]]:
    from .editor_actions import EDITOR_ACTIONS

    return EDITOR_ACTIONS


def _editor_observations() -> Iterable[type[Observation]]:
    from .editor_observations import EDITOR_OBSERVATIONS

    return EDITOR_OBSERVATIONS


ACTIONS: Mapping[str, type[Action]] = KindTable(
    BASE_ACTIONS,
    (
        *("diagnostics", "symbols", "language", "rename_symbol", "apply_code_action", "format"),
        *("organize_imports", "debug_configurations", "set_breakpoints", "debug_start"),
        *("debug_continue", "debug_step", "debug_pause", "debug_state", "debug_evaluate"),
        *("debug_set_variable", "debug_stop"),
        *("list_tests", "run_tests", "test_results"),
        *("selection", "open_file", "show_diff", "ask_user"),
        *("vscode_command", "bridge"),
        *("read_cells", "edit_cells", "run_cells"),
        *("list_tasks", "run_task", "stop_task", "list_running", "read_terminal"),
        *("git_status", "git_diff", "git_stage", "git_unstage", "git_commit"),
        *("open_editors", "list_ports", "screenshot"),
    ),
    _editor_actions,
)
"""Every action class by its `kind`."""

OBSERVATIONS: Mapping[str, type[Observation]] = KindTable(
    BASE_OBSERVATIONS,
    (
        *("diagnostics", "symbols", "language", "code_changed", "selection", "open_file"),
        *("show_diff", "debug_configurations", "breakpoints", "debug_state", "debug_evaluate"),
        *("ask_user", "vscode_command", "bridge"),
        *("list_tests", "test_results"),
        "cells",
        *("list_tasks", "task", "list_running", "read_terminal"),
        *("git_status", "git_diff"),
        *("open_editors", "list_ports", "screenshot"),
    ),
    _editor_observations,
)
"""Every observation class by its `kind`."""
