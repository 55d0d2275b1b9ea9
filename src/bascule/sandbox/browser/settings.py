"""Settings of the sandbox's browser."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path

from bascule.core.extras import install_command

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Program names of Chromium on different systems, best first."""

SCREENSHOTS = ".browser_screenshots"
DOWNLOADS = ".downloads"
"""Directories inside the working directory, where OpenHands' agents expect these files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSettings:
    """Limits and timeouts of the browser and of its observations."""

    enabled: bool = True
    chromium: str = ""
    """Path of the program; empty: search the PATH."""
    refused: tuple[tuple[str, int], ...] = ()
    """Hosts and ports that pages cannot reach under any name, such as the hub's. The action server
    adds its own."""
    text_limit: int = 60_000
    """Maximum characters of a page, or of its tree, in an observation; the middle is cut out."""
    picture_limit: int = 2 << 20
    """Maximum bytes of a PNG screenshot; a larger one becomes a JPEG."""
    max_tabs: int = 16
    width: int = 1280
    height: int = 720
    load_timeout: float = 20.0
    """Seconds to wait for a page to load; then the action returns what has loaded so far."""
    look_timeout: float = 12.0
    """Timeout in seconds for reading a page; a page with an endless script never answers."""
    act_timeout: float = 5.0
    """Seconds to wait for an element to become ready, for example visible and enabled."""
    timeout: float = 60.0
    """Timeout in seconds of an action that has none."""


def why_no_browser(settings: BrowserSettings) -> str:
    """Return why `find_chromium` returned None, and a remedy."""
    if not settings.enabled:
        return "it is switched off: --no-enable-browser, or the setting `enabled`"
    if importlib.util.find_spec("playwright") is None:
        return f"the extra `browser` is not installed: {install_command('browser')}"
    if settings.chromium:
        return f"there is no Chromium at {settings.chromium}"
    return "there is no Chromium on the PATH: apt-get install chromium"


def find_chromium(settings: BrowserSettings) -> str | None:
    """Return the path of Chromium; None if the browser is disabled, or Chromium or Playwright is
    missing."""
    if not settings.enabled or importlib.util.find_spec("playwright") is None:
        return None
    if settings.chromium:
        return settings.chromium if Path(settings.chromium).exists() else None
    return next(filter(None, map(shutil.which, CHROMIUMS)), None)
