"""The accessibility tree of a page with all its frames: as text for agents, and as an object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Box = tuple[float, float, float, float]
"""Left, top, width and height in the viewport of the page."""

_LISTED_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class AccessibilityNode:
    """An element, or a piece of text. Text has no bid."""

    depth: int
    bid: str
    role: str
    name: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    box: Box | None = None
    is_visible: bool = False
    is_clickable: bool = False


@dataclass(frozen=True, slots=True)
class AccessibilityTree:
    """A document and its elements."""

    title: str
    nodes: Sequence[AccessibilityNode]
    focused: str = ""
    is_partial: bool = False
    """The page is too large; only elements in or near the viewport are included."""

    def lines(self) -> Iterable[str]:
        """Yield one line per element, indented by depth."""
        yield f"RootWebArea {self.title!r}" + ("" if self.focused else ", focused")
        for node in self.nodes:
            yield "\t" * node.depth + _line(node)

    def listed(self, *, limit: int) -> Iterable[str]:
        """Yield one line per clickable element, up to `limit`, and the number of further ones."""
        active = [node for node in self.nodes if node.bid and node.is_clickable]
        active = [node for node in active if node.role != "option"]
        for node in active[:limit]:
            yield _line(node, name=_shortened(node.name)).removesuffix(", clickable")
        if len(active) > limit or self.is_partial:
            more = f"{len(active) - limit} more" if len(active) > limit else "there may be more"
            yield f"[… {more}; browse_interactive with noop(0) shows the page's whole tree …]"

    def as_object(self) -> dict[str, Any]:
        """Return the tree in the format of BrowserGym: nodes with ids, roles, names, children."""
        root: dict[str, Any] = _entry("0", "RootWebArea", self.title)
        entries, parents = [root], [root]
        for number, node in enumerate(self.nodes, start=1):
            entry = _entry(str(number), node.role, node.name)
            if node.bid:
                entry["browsergym_id"] = node.bid
            for name, value in node.properties.items():
                if name == "value":
                    entry["value"] = {"type": "string", "value": value}
                else:
                    entry["properties"].append({"name": name, "value": _typed(value)})
            del parents[max(node.depth, 1) :]
            entry["parentId"] = parents[-1]["nodeId"]
            parents[-1]["childIds"].append(entry["nodeId"])
            parents.append(entry)
            entries.append(entry)
        return {"nodes": entries}

    def properties(self) -> dict[str, Any]:
        """Return position, visibility and clickability of each element, by bid."""
        return {
            node.bid: {
                "visibility": 1.0 if node.is_visible else 0.0,
                "bbox": None if node.box is None else list(node.box),
                "clickable": node.is_clickable,
                "set_of_marks": node.is_visible and node.is_clickable,
            }
            for node in self.nodes
            if node.bid
        }


def _shortened(name: str) -> str:
    return name if len(name) <= _LISTED_NAME else name[: _LISTED_NAME - 1] + "…"


def _line(node: AccessibilityNode, *, name: str | None = None) -> str:
    label = f"{node.role} {node.name if name is None else name!r}"
    words = [f"[{node.bid}] {label}" if node.bid else label]
    for key, value in node.properties.items():
        if key in ("url", "level"):
            continue
        words.append(key if value is True else f"{key}={value!r}")
    if node.is_clickable and not node.properties.get("disabled"):
        words.append("clickable")
    return ", ".join(words)


def _entry(node_id: str, role: str, name: str) -> dict[str, Any]:
    return {
        "nodeId": node_id,
        "ignored": False,
        "role": {"type": "role", "value": role},
        "name": {"type": "computedString", "value": name},
        "properties": [],
        "childIds": [],
    }


def _typed(value: object) -> dict[str, Any]:
    kind = (
        "boolean" if isinstance(value, bool) else "integer" if isinstance(value, int) else "token"
    )
    return {"type": kind, "value": value}
