"""Runs the command rules of the VS Code extension in Node, to compare them with Python's."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import bascule
from bascule.core.errors import ExecutionError, MissingTool

_PROGRAM = "dist/rules-batch.js"


def decide_in_window(questions: Sequence[str]) -> Sequence[str]:
    """The extension's answers to the JSON lines of a batch, one for each."""
    node = node_program()
    with tempfile.TemporaryDirectory(prefix="bascule-rules-") as scratch:
        finished = subprocess.run(
            [node, str(rules_program(Path(scratch)))],
            input="".join(f"{line}\n" for line in questions),
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    if finished.returncode != 0:
        message = finished.stderr.strip() or f"Node exited with status {finished.returncode}"
        raise ExecutionError(f"the extension's rules failed: {message}")
    answers = finished.stdout.splitlines()
    if len(answers) != len(questions):
        raise ExecutionError(
            f"the extension's rules gave {len(answers)} answers to {len(questions)} questions"
        )
    return answers


def node_program() -> str:
    """The path of Node. Raises `MissingTool`."""
    node = shutil.which("node")
    if node is None:
        raise MissingTool(
            "--engine window needs Node 20 or newer; install it, or use --engine python"
        )
    return node


def rules_program(scratch: Path) -> Path:
    """The rules program: from the clone, or unpacked into `scratch` from the extension in the
    wheel."""
    from bascule.cli.editor import extension

    clone = Path(bascule.__file__).parents[2] / "extension" / _PROGRAM
    if clone.is_file():
        return clone
    package = extension()
    try:
        with ZipFile(package) as archive:
            unpacked = scratch / Path(_PROGRAM).name
            unpacked.write_bytes(archive.read(f"extension/{_PROGRAM}"))
            return unpacked
    except (KeyError, BadZipFile) as error:
        raise MissingTool(
            f"{package} has no {_PROGRAM}; in a clone, build the extension with `make editor`"
        ) from error
