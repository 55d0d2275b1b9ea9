"""What the case of checkpoints asks, and the trees of files it asks about."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

Checkpoint = Callable[[], None]
CHANGED = 10
"""Files that a command changes."""
_FILES_PER_DIRECTORY = 20
# Without gc in the background, which would be in the way of the one that follows.
_COMMIT = [
    *("-c", "gc.auto=0", "-c", "user.name=x", "-c", "user.email=x@example.org"),
    *("commit", "-qm", "all"),
]


class CheckpointSubject(ABC):
    """Answers the harness; a product says how it makes its checkpoints."""

    def __init__(self) -> None:
        self._place = Path()

    async def start(self) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="bascule-bench-"))

    async def stop(self) -> None:
        shutil.rmtree(self._place)

    async def hello(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "versions": self.versions(), "server_pid": None}

    async def checkpoints(self, files: int) -> dict[str, Any]:
        """CPU seconds, with child processes: of the first checkpoint, and around two commands."""
        workspace, store = self._place / f"tree-{files}", self._place / f"store-{files}"
        if not workspace.exists():
            make_tree(workspace, files)
        shutil.rmtree(store, ignore_errors=True)
        store.mkdir()
        before, after = self.opened(store, workspace)
        some = sorted(workspace.rglob("*.txt"))[:: max(1, files // CHANGED)][:CHANGED]
        spent = {"first": _cpu(before)}
        after()
        spent["nothing"] = _cpu(before) + _cpu(after)
        spent["changed"] = _cpu(before)
        for path in some:
            path.write_bytes(os.urandom(32) + path.read_bytes()[32:])
        spent["changed"] += _cpu(after)
        return spent

    @abstractmethod
    def opened(self, store: Path, workspace: Path) -> tuple[Checkpoint, Checkpoint]:
        """What makes the checkpoint before a command, and the one after it."""

    @abstractmethod
    def versions(self) -> dict[str, str]: ...


def make_tree(workspace: Path, files: int) -> None:
    """A git repository without changes, of files of 5 KB on average."""
    chance = random.Random(1)
    for number in range(files):
        group = number // _FILES_PER_DIRECTORY
        path = workspace / f"{group % 25}/{group // 25}/file{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(16).hex().encode() * chance.randrange(1, 320))
    for arguments in (["init", "-q"], ["add", "-A"], _COMMIT, ["gc", "-q"], ["status", "-s"]):
        subprocess.run(["git", *arguments], cwd=workspace, check=True)


def _cpu(work: Checkpoint) -> float:
    before = _spent()
    work()
    return _spent() - before


def _spent() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
