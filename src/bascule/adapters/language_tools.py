"""Tools for the language features of a window or a sandbox, as data: for MCP and OpenHands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bascule.core.actions import Action
from bascule.core.editor_actions import (
    ApplyCodeAction,
    FormatFile,
    LanguageLookup,
    LookupKind,
    OrganizeImports,
    RenameSymbol,
    VscodeCommand,
)

from .editor_tool import Arguments, EditorTool, count_property, text_property

_PATH: Final = text_property("Absolute, or relative to the workspace folder")
_LINE: Final = count_property("Line number, from 1")
_OCCURRENCE: Final = count_property("Which occurrence in the line, if there are several", default=1)
_PLACE: Final = {
    "path": _PATH,
    "line": _LINE,
    "symbol": text_property("The symbol's text in that line, such as a name; no column is needed"),
    "occurrence": _OCCURRENCE,
}
_LINES: Final = {
    "path": _PATH,
    "line": _LINE,
    "symbol": text_property("Text in that line; without it, the whole line"),
    "occurrence": _OCCURRENCE,
    "end_line": count_property("The last line, to choose several lines instead of a symbol"),
}
_PAGE: Final = {
    "offset": count_property(
        "How many results to skip, to read the next part of a long list", 0, default=0
    ),
    "limit": count_property("Maximum number of results", maximum=1000, default=100),
}
_NEEDED: Final = ("path", "line", "symbol")
_CHANGE: Final = (
    " The files are saved. In VS Code the user reviews the change, and one undo takes it back."
)


def _lookup(
    what: LookupKind,
    title: str,
    description: str,
    properties: Mapping[str, Any],
    required: Sequence[str] = _NEEDED,
) -> EditorTool:
    def action(arguments: Arguments) -> Action:
        return LanguageLookup(
            what, **{_FIELDS.get(name, name): arguments[name] for name in arguments}
        )

    return EditorTool(
        name=what,
        title=title,
        description=description,
        properties=properties,
        required=required,
        kind=LanguageLookup,
        action=action,
    )


_FIELDS: Final = {"only": "query"}
"""Arguments whose name differs from the field of the action."""

_LOOKUPS: Final = (
    _lookup(
        "definition",
        "Go to the definition",
        "Where a symbol is defined, from a language server. Better than a "
        "text search: it knows scopes, imports and types.",
        _PLACE,
    ),
    _lookup(
        "type_definition",
        "Go to the type",
        "Where the type of a symbol is defined.",
        _PLACE,
    ),
    _lookup(
        "implementations",
        "Find implementations",
        "Classes and methods that implement an interface, class or method.",
        {**_PLACE, **_PAGE},
    ),
    _lookup(
        "references",
        "Find references",
        "Every use of a symbol in the workspace, and its declaration: path:line and the line. Call "
        "this before changing the signature of a function.",
        {**_PLACE, **_PAGE},
    ),
    _lookup(
        "hover",
        "Type and documentation",
        "The type, signature and documentation of a symbol.",
        _PLACE,
    ),
    _lookup(
        "call_hierarchy",
        "Callers and callees",
        "Which functions call a function and in which lines, or which functions it calls.",
        {
            **_PLACE,
            "direction": {
                "type": "string",
                "enum": ["incoming", "outgoing"],
                "default": "incoming",
                "description": "incoming: its callers. outgoing: what it calls",
            },
            **_PAGE,
        },
    ),
    _lookup(
        "workspace_symbols",
        "Find symbols by name",
        "Functions, classes and variables of the whole workspace by a part of their name.",
        {
            "query": text_property("A part of the name"),
            "path": text_property(
                "A file in the wanted language; its language server is started for it"
            ),
            **_PAGE,
        },
        ("query",),
    ),
    _lookup(
        "code_actions",
        "List fixes and refactorings",
        "Quick fixes and refactorings that are offered at a place. apply_code_action applies "
        "one by its title.",
        {**_LINES, "only": text_property("Only this kind, such as quickfix or refactor.extract")},
        ("path", "line"),
    ),
)

_CHANGES: Final = (
    EditorTool(
        name="rename_symbol",
        title="Rename a symbol",
        description="Rename a symbol in all files that use it, with a language server. "
        "Safer than replacing text. Name the place where it is declared: at a use in another file, "
        f"TypeScript renames only the import.{_CHANGE}",
        properties={**_PLACE, "new_name": text_property("The new name")},
        required=(*_NEEDED, "new_name"),
        kind=RenameSymbol,
        action=lambda arguments: RenameSymbol(**arguments),
        changes_files=True,
    ),
    EditorTool(
        name="apply_code_action",
        title="Apply a fix or refactoring",
        description="Apply a quick fix or refactoring by the title that code_actions listed for "
        f"the same place.{_CHANGE}",
        properties={**_LINES, "title": text_property("Exactly as listed")},
        required=("path", "line", "title"),
        kind=ApplyCodeAction,
        action=lambda arguments: ApplyCodeAction(**arguments),
        changes_files=True,
    ),
    EditorTool(
        name="format",
        title="Format a file",
        description=f"Format a file with the formatter of the editor or language server.{_CHANGE}",
        properties={"path": _PATH},
        required=("path",),
        kind=FormatFile,
        action=lambda arguments: FormatFile(arguments["path"]),
        changes_files=True,
    ),
    EditorTool(
        name="organize_imports",
        title="Organize imports",
        description=f"Sort the imports of a file and remove unused ones.{_CHANGE}",
        properties={"path": _PATH},
        required=("path",),
        kind=OrganizeImports,
        action=lambda arguments: OrganizeImports(arguments["path"]),
        changes_files=True,
    ),
    EditorTool(
        name="vscode_command",
        title="Run a VS Code command",
        description="Run a command of VS Code by its id, if the user's settings allow it. The "
        'answer is its result as JSON. Write a Uri as {"$uri": "path or URI"}, a Position as '
        '{"$position": [line, character]}, a Range as {"$range": [line, character, line, '
        'character]}, a Selection as {"$selection": [the same]} and a Location as {"$location": '
        '{"uri": "path", "range": [the same]}}; here lines and characters count from 0. Results '
        "have the same forms.",
        properties={
            "command": text_property("Its id, such as vscode.executeDocumentHighlights"),
            "arguments": {"type": "array", "items": {}, "description": "Its arguments"},
        },
        required=("command",),
        kind=VscodeCommand,
        action=lambda arguments: VscodeCommand(
            arguments["command"], tuple(arguments.get("arguments", ()))
        ),
        changes_files=True,
    ),
)

LANGUAGE_TOOLS: Final[Sequence[EditorTool]] = (*_LOOKUPS, *_CHANGES)
