"""Receive output while a command runs, in a program without asyncio."""

import tempfile

from bascule.core.contracts import OutputProgress
from bascule.runtime import LocalRuntime, SyncRuntime

pieces: list[bytes] = []


def on_progress(progress: OutputProgress) -> None:
    pieces.append(progress.data)


with (
    tempfile.TemporaryDirectory() as workspace,
    SyncRuntime(LocalRuntime(workspace)) as sandbox,
):
    seen = sandbox.run("for i in 1 2 3; do echo $i; sleep 0.1; done", on_progress=on_progress)

print("arrived in several pieces:", len(pieces) > 1)
print("and nothing is missing:", b"".join(pieces).decode() == seen.content)

# > arrived in several pieces: True
# > and nothing is missing: True
