"""The options of `bascule session merge`, before a hub is asked."""

from __future__ import annotations

from typing import Any

import pytest

from bascule.cli.session_forks import merge
from bascule.core.errors import UsageError


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("--path", {"path": ["src", ""]}),
        ("--take", {"take": [""]}),
        ("--keep", {"keep": [""]}),
        ("--into", {"into": ""}),
        ("--branch", {"branch": ""}),
        ("--repository", {"branch": "work", "repository": ""}),
    ],
)
def test_an_empty_option_is_refused(option: str, given: dict[str, Any]) -> None:
    """It is mostly a variable that is not set, and must not select everything."""
    with pytest.raises(UsageError, match=f"^{option} is empty; give it a value, or leave it out"):
        merge("fork", **given)


def test_a_repository_without_a_branch_is_refused() -> None:
    with pytest.raises(UsageError, match="--repository is only for --branch"):
        merge("fork", repository="sub")
