"""The quick fixes and refactorings that a language server offers for a range of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .asking import OpenedFile
from .problems import problems_of
from .text_positions import Range, overlap

CodeAction = Mapping[str, Any]
"""A `CodeAction` or `Command` of the protocol."""

_INVOKED: Final = 1


async def find_code_actions(opened: OpenedFile, place: Range, kind: str) -> list[CodeAction]:
    """The code actions for a range; only those of a kind, if it is not empty."""
    server, document = opened.server, opened.document
    problems = await problems_of(server, document)
    context: dict[str, Any] = {
        "diagnostics": [each for each in problems if overlap(each["range"], place)],
        "triggerKind": _INVOKED,
    }
    if kind:
        context["only"] = [kind]
    params = {"textDocument": document.identifier, "range": place, "context": context}
    found: Sequence[CodeAction] | None = await server.request("textDocument/codeAction", params)
    # Some servers also return other kinds, and disabled actions.
    return [each for each in found or () if _is_kind(each, kind) and (kind or not _disabled(each))]


async def completed(opened: OpenedFile, found: CodeAction) -> CodeAction:
    """The action with its edit: servers may compute it only when the action was chosen."""
    provider = opened.server.capabilities.get("codeActionProvider")
    can_resolve = isinstance(provider, Mapping) and provider.get("resolveProvider")
    if not can_resolve or "edit" in found or "command" in found:
        return found
    return dict(await opened.server.request("codeAction/resolve", found))


def command_of(found: CodeAction) -> Mapping[str, Any] | None:
    command = found.get("command")
    if isinstance(command, str):
        return found  # a bare command
    return command


def _is_kind(found: CodeAction, kind: str) -> bool:
    own = found.get("kind") or ""
    return not kind or own == kind or own.startswith(f"{kind}.")


def _disabled(found: CodeAction) -> bool:
    return bool(found.get("disabled"))
