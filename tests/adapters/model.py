"""A model that says what a test wrote down, for agents that reach theirs over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Call = tuple[str, dict[str, Any]]
"""A tool's name and its arguments."""


class Model(ThreadingHTTPServer):
    """Answers as OpenAI's servers do: the next call of the script to whoever offers tools."""

    def __init__(self, script: Sequence[Call]) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.script = list(script)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class _Answer(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message: dict[str, Any] = {"role": "assistant", "content": "A title"}
        if asked.get("tools"):
            name, arguments = self.server.script.pop(0)
            function = {"name": name, "arguments": json.dumps(arguments)}
            number = f"call-{len(self.server.script)}"
            message["tool_calls"] = [{"id": number, "type": "function", "function": function}]
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = json.dumps(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": "m",
                "choices": [choice],
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def serving(script: Sequence[Call]) -> Iterator[Model]:
    model = Model(script)
    thread = threading.Thread(target=model.serve_forever)
    thread.start()
    try:
        yield model
    finally:
        model.shutdown()
        thread.join()
        model.server_close()
