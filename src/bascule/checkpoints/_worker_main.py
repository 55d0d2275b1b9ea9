"""Starts a `CheckpointWorker`: `python -I _worker_main.py STORE WORKSPACE MAX_BYTES`.

The VS Code extension contains this file and the modules that it imports, so it runs with any Python
3.11 or newer without Bascule. This file must also compile with older versions of Python, to report
that they are too old.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

MIN_PYTHON = (3, 11)


def main() -> None:
    # Messages get their own descriptor; all other output goes to stderr.
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def send(message: dict[str, str]) -> None:
        sink.write(json.dumps(message).encode() + b"\n")
        sink.flush()

    if sys.version_info < MIN_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        send({"op": "failed", "text": f"Python {found} is too old; checkpoints need 3.11 or newer"})
        return
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    try:
        import sqlite3  # noqa: F401 -- some builds of Python lack it
    except ImportError as error:
        send({"op": "failed", "text": f"{sys.executable} cannot import sqlite3: {error}"})
        return
    from bascule.checkpoints.limits import CheckpointLimits
    from bascule.checkpoints.recording import ActionRecorder
    from bascule.checkpoints.worker import CheckpointWorker

    store, workspace, max_bytes = sys.argv[1:]
    limits = CheckpointLimits(store_bytes=int(max_bytes))
    recorder = ActionRecorder(Path(store), Path(workspace), limits)
    send({"op": "ready", "python": sys.executable})
    CheckpointWorker(recorder, sys.stdin.buffer, sink).serve()


if __name__ == "__main__":
    main()
