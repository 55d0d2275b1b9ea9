"""Reads a page with all its frames without changing it."""

from __future__ import annotations

import asyncio
import itertools
import string
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from playwright.async_api import ElementHandle, Error, Frame, JSHandle, Page

from bascule.core.errors import InvalidAction

from .tree import AccessibilityNode, AccessibilityTree, Box

_SCRIPT: Final = Path(__file__).with_name("page.js").read_text()
_MAX_FRAMES: Final = 40
_FRAME_TIMEOUT: Final = 3.0
"""Timeout in seconds for a frame inside the page. A frame with an endless script never answers. The
caller limits the time for the page itself."""
_TREE_LIMITS: Final = {"many": 4000, "most": 3000, "budget": 1500}
"""Limits of a tree, which `tree` in page.js explains."""

_Answer = TypeVar("_Answer")


class PageReader:
    """Reads one page. Element numbers (bids) continue across documents, so an old number never
    matches an element of a new document."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._inside: dict[Frame, tuple[str, JSHandle]] = {}
        self._prefixes = _letters()
        self._known: dict[Frame, str] = {page.main_frame: ""}
        self._last: dict[Frame, int] = {}
        page.on("framedetached", self._forget)

    async def text(self, limit: int) -> str:
        """Return the text of the page, then of its frames; the middle of a long text is cut out."""
        parts = []
        for frame in self._frames():
            try:
                seen = await self._ask(frame, "(reader, limit) => reader.text(limit)", limit)
            except (Error, TimeoutError):
                if frame is self._page.main_frame:
                    raise
                continue
            if frame is not self._page.main_frame and seen["length"]:
                parts.append(f"[Frame: {frame.url}]")
            parts.append(_joined(seen))
        return "\n\n".join(filter(None, parts))

    async def tree(self) -> AccessibilityTree:
        main = await self._read_frame(self._page.main_frame)
        nodes: list[AccessibilityNode] = []
        focused, is_partial = main["focused"], main["partial"]
        frames = await self._children(self._page.main_frame)

        async def add(seen: dict[str, Any], depth: int, at: Box, inside: dict[str, Frame]) -> None:
            nonlocal focused, is_partial
            for raw in seen["nodes"]:
                node = _node(raw, depth, at)
                nodes.append(node)
                frame = inside.get(node.bid)
                if frame is None or len(self._inside) > _MAX_FRAMES:
                    continue
                try:
                    below = await self._read_frame(frame)
                except (Error, TimeoutError):
                    continue  # it is loading or was replaced; its element stays in the tree
                is_partial = is_partial or below["partial"]
                focused = below["focused"] or focused
                corner = node.box or at
                await add(below, node.depth, corner, await self._children(frame))

        await add(main, 0, (0, 0, *main["view"]), frames)
        return AccessibilityTree(main["title"], nodes, focused=focused, is_partial=is_partial)

    async def find(self, bid: str) -> ElementHandle:
        """Return the element with this bid. Raises `InvalidAction` if no element has it."""
        prefix = bid.rstrip(string.digits)
        for frame, (known, inside) in list(self._inside.items()):
            if known != prefix:
                continue
            try:
                found = await _within_time(inside.evaluate_handle("(r, bid) => r.find(bid)", bid))
            except (Error, TimeoutError):
                self._inside.pop(frame, None)
                continue
            if (element := found.as_element()) is not None:
                return element
        raise InvalidAction(
            f"There is no element {bid!r} on the page now; numbers are in its accessibility tree"
        )

    def _frames(self) -> list[Frame]:
        return [each for each in self._page.frames if not each.is_detached()][:_MAX_FRAMES]

    async def _read_frame(self, frame: Frame) -> dict[str, Any]:
        seen: dict[str, Any] = await self._ask(
            frame, "(reader, how) => reader.tree(how)", _TREE_LIMITS
        )
        self._last[frame] = seen["last"]
        return seen

    async def _children(self, frame: Frame) -> dict[str, Frame]:
        """Return the child frames by the bid of the element that contains them."""
        found = {}
        for child in frame.child_frames[:_MAX_FRAMES]:
            try:
                holder = await _within_time(child.frame_element())
                bid = await self._ask(frame, "(reader, element) => reader.bidOf(element)", holder)
            except (Error, TimeoutError):
                continue
            found[bid] = child
        return found

    async def _ask(self, frame: Frame, function: str, argument: object) -> Any:
        """Call `function`, in JavaScript, with the reader in the frame and `argument`. A new
        document gets a new reader."""
        within = None if frame is self._page.main_frame else _FRAME_TIMEOUT
        if frame in self._inside:
            try:
                _, reader = self._inside[frame]
                return await _within_time(reader.evaluate(function, argument), within)
            except Error:
                self._inside.pop(frame, None)
        prefix = self._known.setdefault(frame, "")
        if not prefix and frame is not self._page.main_frame:
            prefix = self._known[frame] = next(self._prefixes)
        start = {"prefix": prefix, "first": self._last.get(frame, 0)}
        inside = await _within_time(frame.evaluate_handle(_SCRIPT, start), within)
        self._inside[frame] = prefix, inside
        return await _within_time(inside.evaluate(function, argument), within)

    def _forget(self, frame: Frame) -> None:
        self._inside.pop(frame, None)
        self._known.pop(frame, None)
        self._last.pop(frame, None)


async def _within_time(work: Awaitable[_Answer], within: float | None = _FRAME_TIMEOUT) -> _Answer:
    async with asyncio.timeout(within):
        return await work


def _letters() -> Iterator[str]:
    """a, b, … z, aa, ab, …"""
    for length in itertools.count(1):
        for letters in itertools.product(string.ascii_lowercase, repeat=length):
            yield "".join(letters)


def _joined(seen: dict[str, Any]) -> str:
    if not seen["tail"]:
        return str(seen["head"])
    left_out = seen["length"] - len(seen["head"]) - len(seen["tail"])
    return f"{seen['head']}\n\n[… {left_out} characters left out …]\n\n{seen['tail']}"


def _node(raw: list[Any], depth: int, at: Box) -> AccessibilityNode:
    depth_in_frame, bid, role, name, properties, box, visible, clickable = raw
    placed = None if box is None else (box[0] + at[0], box[1] + at[1], box[2], box[3])
    return AccessibilityNode(
        depth + depth_in_frame,
        bid,
        role,
        name,
        properties,
        placed,
        is_visible=bool(visible),
        is_clickable=bool(clickable),
    )
