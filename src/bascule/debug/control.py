"""The protocol between adapter and debuggee: JSON lines over a socket.

The adapter asks, `{id, do, …}`, and is answered, `{id, result}` or `{id, error}`. The debuggee also
tells, `{event, …}`.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from bascule.core.errors import BasculeError


class ControlLine:
    """The debuggee's end. `tell` may be called from any thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lines = connection.makefile("rb")
        self._lock = threading.Lock()

    def options(self) -> dict[str, Any]:
        """The adapter's first message: how to run the net."""
        said: dict[str, Any] = json.loads(self._lines.readline())
        return said

    def tell(self, event: str, body: Mapping[str, Any]) -> None:
        self._send({"event": event, **body})

    def serve(self, handle: Callable[[str, Mapping[str, Any]], Any]) -> None:
        """Answer what is asked until the adapter is gone."""
        for line in self._lines:
            asked = json.loads(line)
            try:
                answer = {"id": asked["id"], "result": handle(asked["do"], asked)}
            except Exception as error:  # noqa: BLE001 - told to the one who asked
                said = str(error) or type(error).__name__
                kind = "" if isinstance(error, BasculeError) else f"{type(error).__name__}: "
                answer = {"id": asked["id"], "error": f"{kind}{said}"}
            self._send(answer)

    def _send(self, message: Mapping[str, Any]) -> None:
        data = json.dumps(message, ensure_ascii=False, default=repr).encode() + b"\n"
        with self._lock:
            try:
                self._socket.sendall(data)
            except OSError:
                return  # the adapter is gone; `serve` ends, and the process with it
