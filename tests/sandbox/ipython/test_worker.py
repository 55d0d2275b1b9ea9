"""The worker process of IPython, driven by its JSON lines.

The requests of a test are written in one piece, so the worker reads them before it has started a
kernel process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import bascule.sandbox.ipython

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

MAIN = Path(bascule.sandbox.ipython.__file__).with_name("_worker_main.py")


def request(op: str, cell: str, **fields: Any) -> dict[str, Any]:
    return {"op": op, "id": cell, **fields}


def run(cell: str, code: str, directory: Path) -> dict[str, Any]:
    where = {"cwd": None, "start_dir": str(directory)}
    return request("run", cell, code=code, timeout=None, is_input=False, **where)


def answers(directory: Path, *requests: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The first `count` answers `done` to the requests. Closes the worker's stdin after them."""
    worker = subprocess.Popen(
        [sys.executable, str(MAIN), str(directory / "sockets")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(b"".join(json.dumps(each).encode() + b"\n" for each in requests))
        worker.stdin.flush()
        messages = (json.loads(line) for line in worker.stdout)
        done = (message for message in messages if message["op"] == "done")
        seen = [answer for _, answer in zip(range(count), done, strict=False)]
        worker.stdin.close()
        assert worker.wait(60) == 0
    return seen


def test_a_cell_cancelled_before_its_kernel_process_exists_gets_an_answer(tmp_path: Path) -> None:
    cells = run("1", "open('ran', 'w')", tmp_path), run("2", "1 + 1", tmp_path)
    first, second = answers(tmp_path, cells[0], request("cancel", "1"), cells[1], count=2)
    assert (first["id"], first["state"]) == ("1", "cancelled")
    assert (second["id"], second["state"], second["count"]) == ("2", "done", 1)
    assert not (tmp_path / "ran").exists()


def test_a_kernel_that_cannot_be_started_gets_an_answer(tmp_path: Path) -> None:
    (tmp_path / "sockets").write_text("a file where the worker needs a directory")
    cells = run("1", "1", tmp_path), run("2", "2", tmp_path)
    for answer in answers(tmp_path, *cells, count=2):
        assert answer["state"] == "lost"
        assert "sockets" in answer["notes"][0]


def test_a_worker_whose_stdin_ends_while_its_kernel_starts_ends_too(tmp_path: Path) -> None:
    assert answers(tmp_path, run("1", "1", tmp_path), count=0) == []
