"""The problems of a document, for its current text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .documents import OpenDocument
from .lookup_items import Item
from .server import LanguageServer
from .text_positions import range_fields
from .tsserver import tsserver_problems

QUIET: Final = 2.0
"""Seconds without a published problem or a changed text after which the problems are complete, for
servers that only publish problems and do not answer requests for them."""
SEVERITIES: Final = ("error", "warning", "information", "hint")

Problem = Mapping[str, Any]
"""A `Diagnostic` of the protocol."""


async def problems_of(server: LanguageServer, document: OpenDocument) -> Sequence[Problem]:
    """Wait until the server has checked the current text, and return its problems."""
    if server.kind.has_tsserver:
        return await tsserver_problems(server, document)
    if server.answers_problems:
        params = {"textDocument": document.identifier}
        return list((await server.request("textDocument/diagnostic", params)).get("items", ()))
    while (rest := server.last_news + QUIET - time.monotonic()) > 0:
        changed = server.problems_changed
        try:
            async with asyncio.timeout(rest):
                await changed.wait()
        except TimeoutError:
            continue
    return server.problems.get(document.uri, ())


def problem_item(problem: Problem, path: str) -> Item:
    return {
        "path": path,
        **range_fields(problem["range"]),
        "severity": SEVERITIES[problem.get("severity", 1) - 1],
        "message": problem["message"],
        "source": problem.get("source") or "",
        "code": "" if problem.get("code") is None else str(problem["code"]),
    }


def problem_line(item: Item) -> str:
    place = f"{item['path']}:{item['line']}:{item['column']}"
    return f"{place}: {item['severity']}: {item['message']}"
