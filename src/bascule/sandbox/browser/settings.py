"""Settings of the sandbox's browser."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names under which systems have it, best first."""

SCREENSHOTS = ".browser_screenshots"
DOWNLOADS = ".downloads"
"""Where OpenHands' agents expect them, in the working directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSettings:
    """Limits and timeouts of the browser and of its observations."""

    enabled: bool = True
    chromium: str = ""
    """The program; found on the PATH when empty."""
    refused: tuple[tuple[str, int], ...] = ()
    """Hosts and ports no page can reach, by whatever name or way: the hub's. The action server
    adds its own."""
    text_limit: int = 60_000
    """Characters of a page, or of its tree, in an answer; head and tail are kept."""
    picture_limit: int = 2 << 20
    """Bytes of a screenshot; a larger one comes as a JPEG."""
    max_tabs: int = 16
    width: int = 1280
    height: int = 720
    load_timeout: float = 20.0
    """Seconds a page has to load; then it is answered as far as it got."""
    look_timeout: float = 12.0
    """Seconds a page has to be read; one whose script never ends does not answer."""
    act_timeout: float = 5.0
    """Seconds an element has to become ready for what is to be done with it."""
    timeout: float = 60.0
    """Seconds of an action that does not bring its own."""


def why_no_browser(settings: BrowserSettings) -> str:
    """What to do about a `find_chromium` that finds none."""
    if not settings.enabled:
        return "it is switched off: --no-enable-browser, or the setting `enabled`"
    if importlib.util.find_spec("playwright") is None:
        return "the package playwright is missing: pip install playwright pypdfium2"
    if settings.chromium:
        return f"there is no Chromium at {settings.chromium}"
    return "there is no Chromium on the PATH: apt-get install chromium"


def find_chromium(settings: BrowserSettings) -> str | None:
    """The program to run; None when this machine has none, or not what it takes to drive it."""
    if not settings.enabled or importlib.util.find_spec("playwright") is None:
        return None
    if settings.chromium:
        return settings.chromium if Path(settings.chromium).exists() else None
    return next(filter(None, map(shutil.which, CHROMIUMS)), None)
