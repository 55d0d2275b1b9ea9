"""Breakpoints of files: what the editor, the debuggee and debugpy are told."""

from __future__ import annotations

import pytest

from bascule.core.errors import InvalidRequest
from bascule.debug.source_breakpoints import SourceBreakpoints

from .test_breakpoints import NET

PLACE, CODE = {"line": 7, "condition": "n > 1"}, {"line": 21}


def test_breakpoints_of_a_net_go_to_the_debuggee_or_to_debugpy() -> None:
    breakpoints = SourceBreakpoints()
    file = breakpoints.set("/n.evolve.yaml", [PLACE, CODE], NET)

    (told,) = breakpoints.for_debuggee("/n.evolve.yaml")
    assert (told["id"], told["element"], told["condition"]) == (1, "p", "n > 1")
    assert file.python_indices() == [1]


def test_breakpoints_of_another_net_are_not_sent_to_the_debuggee() -> None:
    breakpoints = SourceBreakpoints()
    breakpoints.set("/other.evolve.yaml", [PLACE], NET)

    assert breakpoints.for_debuggee("/n.evolve.yaml") == []


def test_debugpy_responses_are_matched_with_breakpoints_in_code() -> None:
    breakpoints = SourceBreakpoints()
    file = breakpoints.set("/n.evolve.yaml", [PLACE, CODE], NET)
    from_python = [{"id": 70, "verified": True, "line": 22}]
    breakpoints.record_python_ids(file, from_python)

    place, code = file.answers(from_python)
    assert (place["line"], code["line"], code["verified"]) == (7, 22, True)
    assert breakpoints.ids_of([70, 71]) == [code["id"]]


def test_a_python_file_waits_for_debugpy() -> None:
    file = SourceBreakpoints().set("/a.py", [{"line": 3}], None)

    assert file.answers() == [
        {"id": 1, "source": {"path": "/a.py"}, "verified": False, "line": 3},
    ]


def test_setting_a_file_again_replaces_its_breakpoints() -> None:
    breakpoints = SourceBreakpoints()
    breakpoints.set("/n.evolve.yaml", [PLACE, CODE], NET)
    breakpoints.set("/n.evolve.yaml", [], NET)
    breakpoints.ensure_net("/n.evolve.yaml")

    assert [file.requested for file in breakpoints] == [[]]


def test_a_line_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'line'"):
        SourceBreakpoints().set("/a.py", [{"line": "3"}], None)
