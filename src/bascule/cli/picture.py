"""Renders an SVG drawing as a PNG with this machine's browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bascule.core.errors import ExecutionError, MissingTool

_BROWSERS: Final = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    "microsoft-edge",
)
_TIMEOUT: Final = 60.0


def to_png(svg: str) -> bytes:
    """`svg` as PNG, at twice its size. Raises `MissingTool` if there is no browser."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise MissingTool(
            "drawing a PNG needs Chromium or Chrome, and neither is on the PATH; install "
            "one, or use --format svg"
        )
    size = re.search(r'width="(\d+)" height="(\d+)"', svg)
    assert size is not None
    with TemporaryDirectory(prefix="bascule-") as directory:
        page, picture = Path(directory) / "net.html", Path(directory) / "net.png"
        page.write_text(f"<style>body{{margin:0}}svg{{display:block}}</style>{svg}", "utf-8")
        command = [
            *(browser, "--headless", "--disable-gpu", "--no-sandbox", "--hide-scrollbars"),
            *(f"--user-data-dir={directory}/profile", f"--screenshot={picture}"),
            *("--force-device-scale-factor=2", f"--window-size={size[1]},{size[2]}"),
            page.as_uri(),
        ]
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
        if not picture.is_file():
            reason = result.stderr.strip().splitlines() or ["no message"]
            raise ExecutionError(f"{browser} could not draw the picture: {reason[-1]}")
        return picture.read_bytes()
