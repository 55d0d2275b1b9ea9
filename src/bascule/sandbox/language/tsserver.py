"""Requests to TypeScript's own server, for what typescript-language-server does not offer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .documents import OpenDocument
from .server import LanguageServer

_COMMAND: Final = "typescript.tsserverRequest"
_PROBLEM_REQUESTS: Final = (
    "syntacticDiagnosticsSync",
    "semanticDiagnosticsSync",
    "suggestionDiagnosticsSync",
)
_SEVERITIES: Final = {"error": 1, "warning": 2, "suggestion": 4}

Answer = Mapping[str, Any]


async def tsserver_problems(
    server: LanguageServer, document: OpenDocument
) -> list[Mapping[str, Any]]:
    """The problems of the current text, as `Diagnostic`s of the protocol.

    Published problems are not used: they do not name the version of the text, and are sent in
    several parts.
    """
    source = "js" if document.language.startswith("javascript") else "ts"
    found = []
    for request in _PROBLEM_REQUESTS:
        answer = await _ask(server, request, {"file": document.path})
        found += [_diagnostic(each, source) for each in answer]
    return found


async def tsserver_organized_imports(
    server: LanguageServer, document: OpenDocument
) -> list[Mapping[str, Any]]:
    """Edits that sort the imports and remove unused ones. The code action of the server only sorts
    them."""
    scope = {"type": "file", "args": {"file": document.path}}
    answer = await _ask(server, "organizeImports", {"scope": scope, "mode": "All"})
    return [
        {"range": _range(edit), "newText": edit["newText"]}
        for file in answer
        for edit in file["textChanges"]
    ]


async def _ask(server: LanguageServer, request: str, arguments: Mapping[str, Any]) -> list[Answer]:
    params = {"command": _COMMAND, "arguments": [request, arguments]}
    answer = await server.request("workspace/executeCommand", params)
    return list((answer or {}).get("body") or ())


def _diagnostic(problem: Answer, source: str) -> Mapping[str, Any]:
    return {
        "range": _range(problem),
        "severity": _SEVERITIES.get(problem["category"], 3),
        "message": problem["text"],
        "source": problem.get("source") or source,
        "code": problem.get("code"),
    }


def _range(found: Answer) -> Mapping[str, Any]:
    return {name: _position(found[name]) for name in ("start", "end")}


def _position(place: Mapping[str, int]) -> Mapping[str, int]:
    """A position of the protocol. In TypeScript's server, lines and columns count from 1."""
    return {"line": place["line"] - 1, "character": place["offset"] - 1}
