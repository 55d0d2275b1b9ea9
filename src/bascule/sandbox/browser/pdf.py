"""Renders a PDF as a web page: an image of each page, with the text below."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

MOST_PAGES: Final = 20
_WIDTH: Final = 900
_PATIENCE: Final = 30.0
_MAIN: Final = Path(__file__).with_name("_pdf_main.py")


def pdf_body(file: Path) -> str:
    """Blocks. HTML that shows the file, or says why it cannot be shown and what can be done."""
    told = _read(file)
    if "pages" not in told:
        return f"<p>{html.escape(file.name)} is a PDF that cannot be drawn here: {_why(told)}</p>"
    count = told["count"]
    parts = [_page(number, count, page) for number, page in enumerate(told["pages"], start=1)]
    if count > len(parts):
        parts.append(
            f"<p>{count - len(parts)} more pages are not shown; a shell can turn them into text "
            "or pictures (pdftotext, pdftoppm).</p>"
        )
    return "".join(parts)


def _page(number: int, count: int, page: dict[str, Any]) -> str:
    # A canvas, as viewers of PDFs draw on; one that runs no script has a background.
    return (
        f"<h2>Page {number} of {count}</h2>"
        f'<canvas aria-label="Page {number} of {count}" width="{page["width"]}" '
        f'height="{page["height"]}" '
        f"style=\"background:url('data:image/png;base64,{page['png']}') 0 0/100% 100%\"></canvas>"
        f"<pre>{html.escape(page['text'])}</pre>"
    )


def _read(file: Path) -> dict[str, Any]:
    command = [sys.executable, "-P", str(_MAIN), str(file), str(MOST_PAGES), str(_WIDTH)]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=True)
        told: dict[str, Any] = json.loads(ran.stdout)
    except subprocess.TimeoutExpired:
        return {"error": f"it took longer than {_PATIENCE:g} seconds"}
    except (subprocess.CalledProcessError, ValueError):
        return {"error": "what draws it gave up on it"}
    return told


def _why(told: dict[str, Any]) -> str:
    if "missing" in told:
        return (
            "the package pypdfium2 is missing (pip install pypdfium2, where the sandbox runs). A "
            "shell can turn it into text or pictures (pdftotext, pdftoppm)."
        )
    return html.escape(f"{told['error'].rstrip('.')}.")
