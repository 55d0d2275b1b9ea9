"""A store stays below its quota by removing the oldest checkpoints, and says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bascule.checkpoints import CheckpointLimits, CheckpointStore
from bascule.core.errors import NoSuchCheckpoint


def disk_usage(directory: Path) -> int:
    return sum(
        os.lstat(os.path.join(above, name)).st_blocks * 512
        for above, _, names in os.walk(directory)
        for name in names
    )


@pytest.mark.slow
def test_the_store_stays_below_its_quota_while_a_big_file_is_rewritten_50_times(
    tmp_path: Path, workspace: Path
) -> None:
    size, quota = 8 << 20, 30 << 20
    limits = CheckpointLimits(file_bytes=size, store_bytes=quota, free_disk_bytes=0)
    (workspace / "small").write_text("small")
    with CheckpointStore(tmp_path / "store", workspace, limits) as store:
        for turn in range(50):
            number = store.begin("agent", f"turn {turn}")
            (workspace / "big").write_bytes(os.urandom(size))
            store.end(number)
            assert disk_usage(tmp_path / "store") < quota

        kept = [each.id for each in store.checkpoints()]
        assert kept == list(range(kept[0], 51)), "the oldest went first"
        assert store.removed_up_to() == kept[0] - 1 > 40
        with pytest.raises(NoSuchCheckpoint, match="removed to save space"):
            store.restore(1, 1)
        with pytest.raises(NoSuchCheckpoint, match="removed to save space"):
            store.restore(1)
        last = (workspace / "big").read_bytes()
        assert store.restore(50, 50).paths == ["big"]
        assert (workspace / "big").read_bytes() != last
        assert (workspace / "big").stat().st_size == size


@pytest.mark.slow
def test_a_sparse_file_fits_into_a_quota_below_its_size(tmp_path: Path, workspace: Path) -> None:
    size, quota = 100 << 20, 20 << 20
    limits = CheckpointLimits(file_bytes=size, store_bytes=quota, free_disk_bytes=0)
    with CheckpointStore(tmp_path / "store", workspace, limits) as store:
        for turn in range(3):
            number = store.begin("agent", f"turn {turn}")
            with (workspace / "big").open("wb") as file:
                file.truncate(size)
                file.seek(turn << 20)
                file.write(b"%d" % turn)
            store.end(number)
            assert store.not_kept() == []
            assert disk_usage(tmp_path / "store") < quota


def test_a_file_that_never_fits_is_named(tmp_path: Path, workspace: Path) -> None:
    (workspace / "big").write_bytes(os.urandom(2 << 20))
    limits = CheckpointLimits(store_bytes=1 << 20, free_disk_bytes=0)
    with CheckpointStore(tmp_path / "store", workspace, limits) as store:
        store.begin("agent", "make")
        assert [(each.path, each.reason) for each in store.not_kept()] == [
            ("big", "no room in the store of 1 MiB")
        ]


def test_the_quota_does_not_remove_contents_of_the_current_state(
    tmp_path: Path, workspace: Path
) -> None:
    (workspace / "kept").write_bytes(os.urandom(1 << 20))
    limits = CheckpointLimits(store_bytes=4 << 20, free_disk_bytes=0)
    with CheckpointStore(tmp_path / "store", workspace, limits) as store:
        for _ in range(10):
            number = store.begin("agent", "make")
            (workspace / "other").write_bytes(os.urandom(1 << 20))
            store.end(number)
        kept = (workspace / "kept").read_bytes()
        number = store.begin("agent", "rm")
        (workspace / "kept").unlink()
        store.end(number)
        store.restore(number, number)
    assert (workspace / "kept").read_bytes() == kept
