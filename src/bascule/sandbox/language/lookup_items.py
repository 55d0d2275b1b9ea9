"""Results of lookups as data, and as lines of text with `path:line`.

`extension/src/language/lookup_items.ts` has the same forms for windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from .text_positions import range_fields

Item = dict[str, Any]
Found = Mapping[str, Any]

_MAX_LINE: Final = 200
"""Maximum characters of a line of code in a result."""
_KINDS: Final = (
    *("file", "module", "namespace", "package", "class", "method", "property", "field"),
    *("constructor", "enum", "interface", "function", "variable", "constant", "string", "number"),
    *("boolean", "array", "object", "key", "null", "enummember", "struct", "event", "operator"),
    "typeparameter",
)


def path_of(uri: str) -> str | None:
    """The path of a file; None for other URIs."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else None


def location_item(found: Found) -> Item:
    """A `Location` or `LocationLink`."""
    if "targetUri" in found:
        place = found.get("targetSelectionRange") or found["targetRange"]
        return _range_item(found["targetUri"], place)
    return _range_item(found["uri"], found["range"])


def symbol_item(found: Found) -> Item:
    """A `SymbolInformation` or `WorkspaceSymbol`."""
    location = found["location"]
    nowhere = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}
    return {
        **_range_item(location["uri"], location.get("range", nowhere)),
        **_named(found, found.get("containerName")),
    }


def call_item(function: Found, calls: list[Found]) -> Item:
    """`calls`: ranges of the calls."""
    return {
        **_range_item(function["uri"], function["selectionRange"]),
        **_named(function, function.get("detail")),
        "lines": [each["start"]["line"] + 1 for each in calls],
    }


def code_action_item(found: Found) -> Item:
    return {
        "title": found["title"],
        "kind": found.get("kind") or "",
        "is_preferred": bool(found.get("isPreferred")),
        "disabled": (found.get("disabled") or {}).get("reason", ""),
    }


def hover_text(contents: Any) -> str:
    """The text of a hover in any of its forms, old ones too."""
    if isinstance(contents, list):
        return "\n".join(filter(str.strip, map(hover_text, contents)))
    if isinstance(contents, str):
        return contents
    if "language" in contents:
        return f"```{contents['language']}\n{contents['value']}\n```"
    return str(contents["value"])


def document_symbols(found: list[Found], path: str) -> list[Item]:
    """All symbols of a document, with those inside of others."""
    return [item for each in found for item in _flat(each, path, "")]


def item_line(item: Item) -> str:
    """One line of text for an item."""
    if "title" in item:
        marks = (item["kind"], "preferred" * item["is_preferred"], item["disabled"])
        return f"{item['title']} ({'; '.join(filter(None, marks))})"
    if "path" not in item:
        return str(item["text"])
    place = f"{item['path']}:{item['line']}"
    if "name" not in item:
        return f"{place}: {short_line(item['text'])}" if item.get("text") else place
    inside = f" in {item['container']}" if item.get("container") else ""
    numbers = ", ".join(map(str, item.get("lines", ())))
    calls = f", called in line {numbers}" if numbers else ""
    return f"{place}: {item['kind']} {item['name']}{inside}{calls}"


def short_line(text: str) -> str:
    line = text.strip()
    return f"{line[:_MAX_LINE]}…" if len(line) > _MAX_LINE else line


def _range_item(uri: str, found: Found) -> Item:
    return {"path": path_of(uri) or uri, **range_fields(found)}


def _named(found: Found, container: str | None) -> Item:
    return {"name": found["name"], "kind": _kind(found["kind"]), "container": container or ""}


def _flat(found: Found, path: str, container: str) -> list[Item]:
    if "location" in found:
        item = symbol_item(found)
    else:
        item = {**_named(found, container), "path": path, **range_fields(found["selectionRange"])}
    kept = ("name", "kind", "container", "path", "line", "column")
    inner = [
        each for child in found.get("children") or () for each in _flat(child, path, found["name"])
    ]
    return [{key: item[key] for key in kept}, *inner]


def _kind(number: int) -> str:
    return _KINDS[number - 1] if 1 <= number <= len(_KINDS) else "unknown"
