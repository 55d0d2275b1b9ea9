"""A workspace and a store beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bascule.checkpoints import CheckpointLimits, CheckpointStore


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    directory = tmp_path / "workspace"
    directory.mkdir()
    return directory


@pytest.fixture
def store(tmp_path: Path, workspace: Path) -> Iterator[CheckpointStore]:
    limits = CheckpointLimits(free_disk_bytes=0)
    with CheckpointStore(tmp_path / "store", workspace, limits) as opened:
        yield opened
