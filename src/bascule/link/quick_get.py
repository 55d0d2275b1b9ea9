"""One GET request to a hub with a strict time limit, such as for tab completion."""

from __future__ import annotations

import json
import threading
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit


def quick_get(url: str, token: str, path: str, *, within: float) -> Any:
    """The JSON answer of the hub at `url` to a GET of `path`; None if it takes too long or fails.

    Never blocks for more than `within` seconds, even if DNS or the network hangs: the request runs
    in a daemon thread.
    """
    answers: list[Any] = []

    def request() -> None:
        try:
            answers.append(_get(url, token, path, within))
        except (OSError, HTTPException, ValueError):
            return  # unreachable, unknown host or not JSON: the result is None

    thread = threading.Thread(target=request, daemon=True)
    thread.start()
    thread.join(within)
    return answers[0] if answers else None


def _get(url: str, token: str, path: str, within: float) -> Any:
    parts = urlsplit(url)
    connection_class = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connection_class(parts.hostname or "", parts.port, timeout=within)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return json.loads(answer.read()) if answer.status == 200 else None
    finally:
        connection.close()
