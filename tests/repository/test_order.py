"""The order in which pytest starts the files of a run in several processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from tests.conftest import sort_by_file


@dataclass(frozen=True, slots=True)
class Item:
    path: Path
    name: str
    limit: int | None = None

    def get_closest_marker(self, name: str) -> Any:
        assert name == "timeout"
        return pytest.mark.timeout(self.limit).mark if self.limit else None


def test_files_with_long_tests_come_first_then_those_with_many() -> None:
    few, long, longest, many = (Path(f"test_{name}.py") for name in ("few", "l", "ll", "many"))
    items = [
        *(Item(few, "a", 5), Item(long, "b"), Item(long, "c", 600), Item(longest, "d", 900)),
        *(Item(many, "f", 110), Item(many, "e")),
    ]

    sort_by_file(cast("list[pytest.Item]", items))

    assert "".join(item.name for item in items) == "dbcfea"
