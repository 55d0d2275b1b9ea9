"""Screenshots of pages, plain and with numbered frames around the elements."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Browser, BrowserContext, Error, Page

from .tree import AccessibilityNode

_TIMEOUT: Final = 5.0
_MAX_MARKS: Final = 300
_KEPT: Final = 100
"""Screenshot files kept; older ones are deleted."""

_DRAW: Final = """async ({ picture, marks }) => {
  const image = new Image();
  image.src = picture;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const pen = canvas.getContext("2d");
  pen.drawImage(image, 0, 0);
  pen.font = "bold 11px monospace";
  pen.textBaseline = "top";
  for (const [bid, x, y, width, height] of marks) {
    let hue = 0;
    for (const letter of bid) hue = (hue * 31 + letter.charCodeAt(0) * 57) % 360;
    const colour = `hsl(${hue} 90% 35%)`;
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.strokeRect(x, y, width, height);
    const wide = pen.measureText(bid).width + 4;
    const left = Math.max(0, Math.min(x, image.width - wide));
    const top = Math.max(0, y - 13);
    pen.fillStyle = colour;
    pen.fillRect(left, top, wide, 13);
    pen.fillStyle = "white";
    pen.fillText(bid, left + 2, top + 1);
  }
  const blob = await canvas.convertToBlob({ type: "image/png" });
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768)
    text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return btoa(text);
}"""


class ScreenshotMarker:
    """Draws numbered frames on screenshots, in a separate page: visited pages stay unchanged."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._context: BrowserContext | None = None
        self._page: Page | None = None

    async def mark(self, picture: str, nodes: Sequence[AccessibilityNode]) -> str:
        """Return the screenshot with a numbered frame around every clickable element."""
        marks = [
            [node.bid, *node.box]
            for node in nodes
            if node.bid and node.box is not None and node.is_visible and node.is_clickable
        ][:_MAX_MARKS]
        if not picture or not marks:
            return picture
        if self._page is None:
            self._context = await self._browser.new_context(offline=True)
            self._page = await self._context.new_page()
        drawn = await self._page.evaluate(_DRAW, {"picture": picture, "marks": marks})
        return f"data:image/png;base64,{drawn}"


async def take_screenshot(page: Page, *, limit: int) -> bytes:
    """A screenshot of the viewport, as JPEG if the PNG exceeds `limit` bytes; empty on failure."""
    how: dict[str, Any] = {"timeout": _TIMEOUT * 1000, "animations": "allow", "caret": "initial"}
    try:
        async with asyncio.timeout(_TIMEOUT + 1):
            picture = await page.screenshot(type="png", **how)
            if len(picture) > limit:
                picture = await page.screenshot(type="jpeg", quality=60, **how)
    except (Error, TimeoutError):
        return b""
    return picture if len(picture) <= limit else b""


def data_url(picture: bytes) -> str:
    if not picture:
        return ""
    kind = "png" if picture.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"


class ScreenshotStore:
    """Saves screenshots as files and deletes the oldest ones."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._mine: list[Path] = []
        self._numbers = itertools.count(1)

    def save(self, picture: bytes) -> str | None:
        """Write a screenshot and return its path; None if it cannot be written. Blocks the calling
        thread."""
        if not picture:
            return None
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        ending = "png" if picture.startswith(b"\x89PNG") else "jpg"
        file = self._directory / f"screenshot_{stamp}-{next(self._numbers):04d}.{ending}"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            file.write_bytes(picture)
        except OSError:
            return None
        self._mine.append(file)
        while len(self._mine) > _KEPT:
            self._mine.pop(0).unlink(missing_ok=True)
        return str(file)
