"""Renders a PDF as a web page: an image of each page, with the text below."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from bascule.core.extras import install_command

MAX_PAGES: Final = 20
_WIDTH: Final = 900
_TIMEOUT: Final = 30.0
_MAIN: Final = Path(__file__).with_name("_pdf_main.py")


def pdf_body(file: Path) -> str:
    """Return HTML that shows the file, or says why the file cannot be shown and what to do instead.

    Blocks the calling thread.
    """
    result = _read(file)
    if "pages" not in result:
        reason = _error_text(result)
        return f"<p>{html.escape(file.name)} is a PDF that cannot be drawn here: {reason}</p>"
    count = result["count"]
    parts = [_page(number, count, page) for number, page in enumerate(result["pages"], start=1)]
    if count > len(parts):
        parts.append(
            f"<p>{count - len(parts)} more pages are not shown; a shell can turn them into text "
            "or pictures (pdftotext, pdftoppm).</p>"
        )
    return "".join(parts)


def _page(number: int, count: int, page: dict[str, Any]) -> str:
    # A <canvas>, as in PDF viewers such as pdf.js: the tree of the page lists it with its label.
    # Scripts are blocked on this page and cannot draw, so the image is the canvas's background.
    return (
        f"<h2>Page {number} of {count}</h2>"
        f'<canvas aria-label="Page {number} of {count}" width="{page["width"]}" '
        f'height="{page["height"]}" '
        f"style=\"background:url('data:image/png;base64,{page['png']}') 0 0/100% 100%\"></canvas>"
        f"<pre>{html.escape(page['text'])}</pre>"
    )


def _read(file: Path) -> dict[str, Any]:
    command = [sys.executable, "-P", str(_MAIN), str(file), str(MAX_PAGES), str(_WIDTH)]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=_TIMEOUT, check=True)
        result: dict[str, Any] = json.loads(ran.stdout)
    except subprocess.TimeoutExpired:
        return {"error": f"it took longer than {_TIMEOUT:g} seconds"}
    except (subprocess.CalledProcessError, ValueError):
        return {"error": "the process that renders it failed"}
    return result


def _error_text(result: dict[str, Any]) -> str:
    if "missing" in result:
        return (
            "the extra `browser` is not installed where the sandbox runs "
            f"({html.escape(install_command('browser'))}). A shell can turn it into text or "
            "pictures (pdftotext, pdftoppm)."
        )
    return html.escape(f"{result['error'].rstrip('.')}.")
