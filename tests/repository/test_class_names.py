"""No two public classes of `src/` share a name, so that a search for one finds one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"

SHARED_ON_PURPOSE = {
    "OutputChannel",  # of `vscode_bridge` and of its awaiting twin `vscode_bridge.aio`
    "diagnostics",  # the same two
    "VSCodeRuntime",  # OpenHands V0 loads its class by this dotted path
}
STILL_SHARED = {
    "Answer",
    "Choice",
    "Commands",
    "Diagnostic",
    "Ended",
    "Gate",
    "NoWindow",
    "Place",
    "Places",
    "Selection",
    "Sessions",
    "Target",
}
"""To be renamed. Take a name off this list once one class has it; add none."""


def _files_by_class() -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(file.relative_to(SOURCE)))
    return found


def test_no_two_public_classes_share_a_name() -> None:
    known = SHARED_ON_PURPOSE | STILL_SHARED
    shared = {name: files for name, files in _files_by_class().items() if len(files) > 1}

    assert {name: files for name, files in shared.items() if name not in known} == {}


def test_a_name_that_one_class_has_is_off_the_list() -> None:
    found = _files_by_class()

    assert sorted(name for name in STILL_SHARED if len(found[name]) < 2) == []
