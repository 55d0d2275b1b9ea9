"""A shadow repository: `git add -A` and `git write-tree` with a git directory of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from benchmarks.peers.checkpoint_subject import Checkpoint, CheckpointSubject
from benchmarks.peers.serve import respond


class ShadowGit(CheckpointSubject):
    def opened(self, store: Path, workspace: Path) -> tuple[Checkpoint, Checkpoint]:
        environment = {
            "PATH": os.defpath,
            "GIT_DIR": str(store / "git"),
            "GIT_WORK_TREE": str(workspace),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }

        def git(*arguments: str) -> None:
            subprocess.run(
                ["git", *arguments],
                cwd=workspace,
                env=environment,
                stdout=subprocess.DEVNULL,
                check=True,
            )

        def snapshot() -> None:
            git("add", "-A")
            git("write-tree")

        git("init", "-q")

        return snapshot, snapshot

    def versions(self) -> dict[str, str]:
        said = subprocess.run(["git", "--version"], stdout=subprocess.PIPE, text=True, check=True)
        return {"git": said.stdout.split()[-1]}


if __name__ == "__main__":
    respond(ShadowGit())
