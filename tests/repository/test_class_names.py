"""No two public classes of `src/` share a name, so that a search for one finds one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"

SHARED_ON_PURPOSE = {
    "OutputChannel",  # of `vscode_bridge` and of its awaiting twin `vscode_bridge.aio`
    "diagnostics",  # the same two
    "Selection",  # of `vscode_bridge`; the action of this name is in the schema of the protocol
    "VSCodeRuntime",  # OpenHands V0 loads its class by this dotted path
}


def _files_by_class() -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(file.relative_to(SOURCE)))
    return found


def test_no_two_public_classes_share_a_name() -> None:
    shared = {name: files for name, files in _files_by_class().items() if len(files) > 1}

    assert {name: shared[name] for name in shared.keys() - SHARED_ON_PURPOSE} == {}
    assert shared.keys() >= SHARED_ON_PURPOSE
