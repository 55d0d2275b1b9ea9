"""One GET request to a hub with a strict time limit, such as for tab completion."""

from __future__ import annotations

import json
import threading
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit


def quick_get(url: str, token: str, where: str, *, within: float) -> Any:
    """The JSON answer of the hub at `url` to a GET of `where`; None if it takes too long or fails.

    Never blocks for more than `within` seconds, even if DNS or the network hangs: the request runs
    in a daemon thread.
    """
    answers: list[Any] = []

    def ask() -> None:
        try:
            answers.append(_ask(url, token, where, within))
        except (OSError, HTTPException, ValueError):
            return  # unreachable, unknown host or not JSON: the result is None

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(within)
    return answers[0] if answers else None


def _ask(url: str, token: str, where: str, within: float) -> Any:
    at = urlsplit(url)
    kind = HTTPSConnection if at.scheme == "https" else HTTPConnection
    connection = kind(at.hostname or "", at.port, timeout=within)
    try:
        connection.request("GET", where, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return json.loads(answer.read()) if answer.status == 200 else None
    finally:
        connection.close()
