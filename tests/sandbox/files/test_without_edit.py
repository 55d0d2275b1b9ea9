"""An edit is taken back without what others changed since; the extension has the same cases."""

from __future__ import annotations

import pytest

from bascule.sandbox.files.edits import without_edit
from tests.contracts import shared_vectors

_CASES = shared_vectors.load("without_edit")


@pytest.mark.parametrize("case", _CASES, ids=[case["name"] for case in _CASES])
def test_undoing_an_edit_reverts_only_that_edit(case: dict[str, str | None]) -> None:
    before, after, now = (str(case[name]) for name in ("before", "after", "now"))
    assert without_edit(before, after, now) == case["undone"]
