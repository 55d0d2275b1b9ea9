"""The debuggee's end of its connection to the adapter: JSON lines over a socket.

The adapter sends requests `{id, do, …}` and gets `{id, result}` or `{id, error}`. The debuggee also
sends events, `{event, …}`. This end blocks and uses threads, because the event loop runs the net.
The adapter's end is `bascule.link.json_lines`.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from bascule.core.errors import BasculeError


class ControlLine:
    """The debuggee's end. `send_event` may be called from any thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lines = connection.makefile("rb")
        self._lock = threading.Lock()

    def options(self) -> dict[str, Any]:
        """The adapter's first message: how to run the net."""
        message: dict[str, Any] = json.loads(self._lines.readline())
        return message

    def send_event(self, event: str, body: Mapping[str, Any]) -> None:
        self._send({"event": event, **body})

    def serve(self, handle: Callable[[str, Mapping[str, Any]], Any]) -> None:
        """Answer requests until the adapter closes the connection."""
        for line in self._lines:
            request = json.loads(line)
            try:
                answer = {"id": request["id"], "result": handle(request["do"], request)}
            except Exception as error:  # noqa: BLE001 - sent to the adapter
                text = str(error) or type(error).__name__
                kind = "" if isinstance(error, BasculeError) else f"{type(error).__name__}: "
                answer = {"id": request["id"], "error": f"{kind}{text}"}
            self._send(answer)

    def _send(self, message: Mapping[str, Any]) -> None:
        data = json.dumps(message, ensure_ascii=False, default=repr).encode() + b"\n"
        with self._lock:
            try:
                self._socket.sendall(data)
            except OSError:
                return  # the adapter has exited; `serve` ends, and then the process
