"""Loads a net from a file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from .diagnostics import Findings, Loaded
from .evolve import load_evolve
from .model import Span
from .pnml import load_pnml


def load(path: str | PathLike[str]) -> Loaded:
    """Read the net in a file: PNML if the name ends with `.pnml` or `.xml`, otherwise YAML.

    Errors in the file are not raised. They are in the diagnostics, and `net` is None.
    `load(path).unwrap()` raises instead.
    """
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        return _failed(str(path), f"The file cannot be read: {error.strerror}")
    return load_bytes(data, str(path))


def load_bytes(data: bytes, file: str) -> Loaded:
    """Read a net from the contents of a file named `file`, which need not exist."""
    if Path(file).suffix.lower() in (".pnml", ".xml"):
        return load_pnml(data, file)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return _failed(file, "The file is not UTF-8")
    return load_evolve(text, file)


def _failed(file: str, message: str) -> Loaded:
    findings = Findings()
    findings.error("file.unreadable", message, Span(file, 1, 1, 1, 1))
    return Loaded(None, findings.sorted())
