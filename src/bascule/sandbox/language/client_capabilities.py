"""The capabilities that Bascule declares to language servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_CODE_ACTION_KINDS: Final = (
    *("", "quickfix", "refactor", "refactor.extract", "refactor.inline", "refactor.rewrite"),
    *("source", "source.organizeImports", "source.fixAll"),
)

CLIENT_CAPABILITIES: Final[Mapping[str, Any]] = {
    "general": {"positionEncodings": ["utf-16"]},
    "window": {"workDoneProgress": True},
    "workspace": {
        "applyEdit": True,
        "workspaceEdit": {"documentChanges": True, "resourceOperations": ["create"]},
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "configuration": True,
        "workspaceFolders": True,
        "symbol": {},
        "executeCommand": {},
    },
    "textDocument": {
        "synchronization": {"didSave": True},
        "definition": {"linkSupport": True},
        "typeDefinition": {"linkSupport": True},
        "implementation": {"linkSupport": True},
        "references": {},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "rename": {},
        "callHierarchy": {},
        "formatting": {},
        "codeAction": {
            "codeActionLiteralSupport": {
                "codeActionKind": {"valueSet": list(_CODE_ACTION_KINDS)},
            },
            "isPreferredSupport": True,
            "disabledSupport": True,
            "dataSupport": True,
            "resolveSupport": {"properties": ["edit", "command"]},
        },
        "publishDiagnostics": {"versionSupport": True, "codeDescriptionSupport": False},
        "diagnostic": {"dynamicRegistration": True},
    },
    "experimental": {"serverStatusNotification": True},  # of rust-analyzer
}
