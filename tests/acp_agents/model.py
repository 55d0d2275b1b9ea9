"""A model that follows a script, with the interfaces of Gemini, OpenAI and Anthropic."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Step = tuple[str, Mapping[str, Any]]
"""A tool's name and its arguments. The name `wait` waits until the client has disconnected."""
DONE = "All steps are done."
_TOOL_RESULTS = ("functionResponse", "tool_result", '"role": "tool"')
"""Texts in a message with the result of a tool."""


class ScriptedModel(ThreadingHTTPServer):
    """Answers each request that offers tools with the next step, and then with `DONE`.

    It never offers a step to requests without tools, with which agents make titles.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.steps: list[Step] = []
        self.prompt = ""
        """The prompt to which the steps belong. Agents ask the model about other things too."""
        self.requests: list[str] = []
        self.is_waiting = threading.Event()
        self.lock = threading.Lock()

    def next_step(self, asked: Mapping[str, Any]) -> Step | None:
        with self.lock:
            newest = json.dumps(_newest_turn(asked.get("messages") or asked.get("contents") or ()))
            is_next = any(each in newest for each in (self.prompt, *_TOOL_RESULTS))
            return self.steps.pop(0) if asked.get("tools") and is_next and self.steps else None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnects is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedModel
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._json({"data": [], "models": []})

    def do_HEAD(self) -> None:
        self._json({})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        self.server.requests.append(self.path)
        path = self.path.partition("?")[0]
        if path.endswith(("count_tokens", ":countTokens")):
            self._json({"input_tokens": 1, "totalTokens": 1})
            return
        step = self.server.next_step(asked)
        if step is not None and step[0] == "wait":
            self.server.is_waiting.set()
            while self.rfile.read(1):
                pass
            return
        if "GenerateContent" in path or "generateContent" in path:
            self._gemini(step, stream="stream" in path)
        elif path.endswith("/chat/completions"):
            self._openai(step, stream=bool(asked.get("stream")))
        else:
            self._anthropic(step, stream=bool(asked.get("stream")))

    # Gemini ---------------------------------------------------------------------------------

    def _gemini(self, step: Step | None, *, stream: bool) -> None:
        part: dict[str, Any] = {"text": DONE}
        if step is not None:
            part = {"functionCall": {"name": step[0], "args": step[1]}}
        answer = {
            "candidates": [
                {
                    "content": {"role": "model", "parts": [part]},
                    "finishReason": "STOP",
                    "index": 0,
                }
            ],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1},
            "modelVersion": "m",
        }
        if stream:
            self._events([(None, answer)])
        else:
            self._json(answer)

    # OpenAI ---------------------------------------------------------------------------------

    def _openai(self, step: Step | None, *, stream: bool) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": DONE}
        if step is not None:
            function = {"name": step[0], "arguments": json.dumps(step[1])}
            call = {"index": 0, "id": _call_id(), "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "stop" if step is None else "tool_calls"
        base = {"id": "1", "created": 0, "model": "m"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not stream:
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self._json({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        chunk = {**base, "object": "chat.completion.chunk"}
        begins = {"index": 0, "delta": message, "finish_reason": None}
        ends = {"index": 0, "delta": {}, "finish_reason": reason}
        self._events(
            [
                (None, {**chunk, "choices": [begins]}),
                (None, {**chunk, "choices": [ends], "usage": usage}),
            ],
            last=b"data: [DONE]\n\n",
        )

    # Anthropic ------------------------------------------------------------------------------

    def _anthropic(self, step: Step | None, *, stream: bool) -> None:
        block: dict[str, Any] = {"type": "text", "text": DONE}
        if step is not None:
            block = {"type": "tool_use", "id": _call_id(), "name": step[0], "input": step[1]}
        reason = "end_turn" if step is None else "tool_use"
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {
            "id": f"msg_{_call_id()}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [block],
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": usage,
        }
        if not stream:
            self._json(message)
            return
        begun = {**message, "content": [], "stop_reason": None}
        empty: dict[str, Any] = {**block, **({"text": ""} if step is None else {"input": {}})}
        delta = (
            {"type": "text_delta", "text": DONE}
            if step is None
            else {"type": "input_json_delta", "partial_json": json.dumps(step[1])}
        )
        stop = {"stop_reason": reason, "stop_sequence": None}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": usage},
            {"type": "message_stop"},
        ]
        self._events([(each["type"], each) for each in events])

    # ----------------------------------------------------------------------------------------

    def _json(self, value: Mapping[str, Any]) -> None:
        self._send("application/json", json.dumps(value).encode())

    def _events(self, events: list[tuple[str | None, Any]], *, last: bytes = b"") -> None:
        texts = [
            (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"
            for name, data in events
        ]
        self._send("text/event-stream", "".join(texts).encode() + last)

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


def _newest_turn(history: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The messages since the model's last one. Claude Code adds reminders after the prompt."""
    for at in range(len(history), 0, -1):
        if history[at - 1]["role"] in ("assistant", "model"):
            return history[at:]
    return history


_ids = iter(range(1, 1_000_000))


def _call_id() -> str:
    return f"toolu_{next(_ids):024d}"


@contextmanager
def scripted_model() -> Iterator[ScriptedModel]:
    model = ScriptedModel()
    thread = threading.Thread(target=model.serve_forever)
    thread.start()
    try:
        yield model
    finally:
        model.shutdown()
        thread.join()
        model.server_close()
