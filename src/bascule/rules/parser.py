"""Parses command texts with mvdan/sh, through the `shfmt` program of the package shfmt-py.

shfmt has no server mode and reads one text from stdin, so each new text starts one short process.
Results are cached, because agents repeat commands.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import OrderedDict
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from bascule.core.errors import MissingTool

from . import shfmt_tree
from .strict_filter import text_objection
from .syntax import NotUnderstood, ParsedText

_PACKAGE = "shfmt-py"
_TIMEOUT = 10.0
_CACHE_SIZE = 1000
_MAX_OPERATORS = 400
_OPERATORS = re.compile(r"&&|\|\||\|&|\|")


class Parser:
    """Parses texts and caches the last thousand results. Not thread-safe."""

    def __init__(self, *, cache_size: int = _CACHE_SIZE) -> None:
        self._cache_size = cache_size
        self._cache: OrderedDict[str, ParsedText] = OrderedDict()

    def parse(self, text: str) -> ParsedText:
        """The tree of `text`; one `NotUnderstood` node if the text cannot be trusted or parsed."""
        if text in self._cache:
            self._cache.move_to_end(text)
            return self._cache[text]
        script = _parse(text)
        self._cache[text] = script
        if len(self._cache) > self._cache_size:
            self._cache.popitem(last=False)
        return script


def _parse(text: str) -> ParsedText:
    objection = text_objection(text)
    if objection is not None:
        return _not_understood(text, objection)
    if len(_OPERATORS.findall(text)) > _MAX_OPERATORS:
        # Joined commands are nested in shfmt's tree, and its size grows with the square of the
        # depth. So parse them as separate lines, which are not nested: deny rules still see them.
        lines = _OPERATORS.sub(lambda operator: "\n".rjust(len(operator[0])), text)
        return _not_understood(
            text, "more commands are joined than the parser can take", _run(lines)
        )
    return _run(text)


def _run(text: str) -> ParsedText:
    try:
        finished = subprocess.run(
            [shfmt_path(), "--language-dialect=bash", "--to-json"],
            input=text.encode(),
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _not_understood(text, "the parser did not finish in time")
    if finished.returncode != 0:
        message = finished.stderr.decode(errors="replace").strip().removeprefix("<standard input>:")
        return _not_understood(text, f"the text does not parse: {message}")
    try:
        return shfmt_tree.build(text, json.loads(finished.stdout))
    except RecursionError:
        return _not_understood(text, "the text is nested too deeply")


def _not_understood(text: str, reason: str, seen: ParsedText | None = None) -> ParsedText:
    inside = tuple(seen.nodes) if seen is not None else ()
    return ParsedText((NotUnderstood(reason, 0, len(text), inside),))


@cache
def shfmt_path() -> str:
    """The path of the `shfmt` program in the installed package. Raises `MissingTool`."""
    try:
        files = distribution(_PACKAGE).files or []
    except PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate())).resolve()
        if path.name == "shfmt" and path.is_file():
            return str(path)
    raise MissingTool(
        f"command rules need the program shfmt: install the Python package {_PACKAGE}, "
        "which bascule lists as a dependency"
    )
