"""Ours: a walk before a command and one after it."""

from __future__ import annotations

from pathlib import Path

import bascule
from bascule.checkpoints import CheckpointLimits, CheckpointStore
from benchmarks.peers.checkpoint_subject import Checkpoint, CheckpointSubject
from benchmarks.peers.serve import respond


class Bascule(CheckpointSubject):
    def opened(self, store: Path, workspace: Path) -> tuple[Checkpoint, Checkpoint]:
        opened = CheckpointStore(store, workspace, CheckpointLimits(free_disk_bytes=0))
        begun: list[int] = []

        def before() -> None:
            begun.append(opened.begin("agent", "command"))

        def after() -> None:
            opened.end(begun.pop())

        return before, after

    def versions(self) -> dict[str, str]:
        return {"bascule": bascule.__version__}


if __name__ == "__main__":
    respond(Bascule())
