"""An edit is taken back without what others changed since; the extension has the same cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bascule.sandbox.files.edits import take_back

_CASES = json.loads((Path(__file__).parents[2] / "contracts/vectors/take_back.json").read_text())


@pytest.mark.parametrize("case", _CASES, ids=[case["name"] for case in _CASES])
def test_an_edit_is_taken_back_and_nothing_else(case: dict[str, str | None]) -> None:
    before, after, now = (str(case[name]) for name in ("before", "after", "now"))
    assert take_back(before, after, now) == case["undone"]
