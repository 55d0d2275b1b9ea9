"""A process that is killed at any point leaves a store that opens, with old checkpoints whole."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bascule.checkpoints import CheckpointLimits, CheckpointStore
from bascule.checkpoints.database import Database
from tests.checkpoints.trees import picture

WRITES = ("rename", "link", "unlink", "mkdir", "rmdir", "write", "ftruncate", "utime", "chmod")
LIMITS = CheckpointLimits(free_disk_bytes=0)


class KilledAt:
    """Kills this process right before the n-th call that writes, a commit included."""

    def __init__(self, number: int) -> None:
        self._left = number

    def count(self) -> None:
        self._left -= 1
        if self._left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.count()
            return call(*arguments, **named)

        return counted

    def install(self) -> None:
        for name in WRITES:
            setattr(os, name, self.wrap(getattr(os, name)))
        for name in ("add_change", "add_blobs", "save_listings", "end_action", "set_fact"):
            setattr(Database, name, self.wrap(getattr(Database, name)))
        Database.transaction = self.wrap(Database.transaction)  # type: ignore[method-assign]


def act_and_restore(store: Path, workspace: Path, number: int) -> None:
    """What is killed: an edit, a command and a restore of an older checkpoint."""
    KilledAt(number).install()
    with CheckpointStore(store, workspace, LIMITS) as opened:
        edit = opened.begin("agent", "edit", paths=["edited"])
        (workspace / "edited").write_text("edited")
        opened.end(edit)
        command = opened.begin("agent", "command")
        (workspace / "made").write_text("made")
        (workspace / "gone").unlink(missing_ok=True)
        opened.end(command)
        opened.restore(1, 1)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_store_opens_after_kill_at_every_write(tmp_path: Path) -> None:
    forked = multiprocessing.get_context("fork")
    number, survived = 0, False
    while not survived:
        place = tmp_path / str(number)
        workspace, store = place / "w", place / "store"
        workspace.mkdir(parents=True)
        for name in ("old", "edited", "gone"):
            (workspace / name).write_text(f"first {name}")
        before = (workspace / "old").stat().st_mtime_ns
        with CheckpointStore(store, workspace, LIMITS) as opened:
            first = opened.begin("agent", "first")
            (workspace / "old").write_text("changed")
            opened.end(first)
        child = forked.Process(target=act_and_restore, args=(store, workspace, number))
        child.start()
        child.join()
        assert child.exitcode in (0, -signal.SIGKILL)
        survived = child.exitcode == 0

        with CheckpointStore(store, workspace, LIMITS) as opened:
            check_whole(opened)
            left = opened.restore(first, first)
            assert left.conflicts == []
            assert (workspace / "old").read_text() == "first old"
            assert (workspace / "old").stat().st_mtime_ns == before
            # The pre-images of all that had begun are there, though their authors are uncertain.
            for name in ("edited", "gone"):
                if not (workspace / name).exists() or "first" not in (workspace / name).read_text():
                    opened.restore(first, paths=[name])
                assert (workspace / name).read_text() == f"first {name}"
        assert not any(picture(store / "tmp")), "nothing is left over"
        assert not [name for name in os.listdir(workspace) if name.startswith(".bascule-")]
        number += 1
    assert number > 60, "so many writes were there to be killed at"


def check_whole(store: CheckpointStore) -> None:
    """Every content of every checkpoint can be read."""
    for checkpoint in store.checkpoints():
        for change in store.changes(checkpoint.id):
            for version in (change.before, change.after):
                if version is not None and version.content:
                    store.read(version.content)
