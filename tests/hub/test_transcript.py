"""What hub and window say to each other, word for word; REWRITE_TRANSCRIPTS=1 writes it anew."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bascule.core.actions import CmdRun
from bascule.core.identity import EventId
from bascule.core.windows import WindowId
from bascule.hub import Identity
from bascule.link.socketio import Handler
from bascule.sandbox.browser.settings import BrowserSettings
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.testing.window import FakeWindow

from .serving import RunningHub

KEPT = Path(__file__).with_name("window.transcript")
AGENT = Identity(name="helper", owner="admin", scope="agent")
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
CHANGING = {"nonce", "window_key", "timestamp", "milliseconds", "version", "metadata", "message"}
"""Fields whose values differ each time, or are prose."""


class Transcript:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[str, str] = {}

    def add(self, arrow: str, name: str, data: object) -> None:
        self.lines.append(f"{arrow} {name} {json.dumps(self._stable(data), ensure_ascii=False)}")

    def _stable(self, value: object, key: str = "") -> object:
        if key in CHANGING:
            return "…"
        if isinstance(value, Mapping):
            return {name: self._stable(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self._stable(each) for each in value]
        if isinstance(value, str) and re.fullmatch(UUID, value):
            return self._names.setdefault(value, f"uuid-{len(self._names) + 1}")
        return value


class RecordedWindow(FakeWindow):
    """Writes down all that goes over its socket, and its registration."""

    def __init__(self, *args: Any, transcript: Transcript, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._transcript = transcript
        socket = self._socket
        socket._handlers = {
            name: self._heard(name, each) for name, each in socket._handlers.items()
        }
        greeted = socket._on_connected
        assert greeted is not None

        async def register(hello: Mapping[str, Any]) -> None:
            transcript.add("<", "hello", hello)
            await greeted(hello)

        socket._on_connected = register
        self._record(socket, "emit")
        self._record(socket, "call")
        self._http.request = self._asked(self._http.request)  # type: ignore[method-assign]

    def _heard(self, name: str, handler: Handler) -> Handler:
        async def heard(data: object) -> object:
            if name == "health":
                return await handler(data)  # asked whenever it is time to
            self._transcript.add("<", name, data)
            answer = await handler(data)
            if answer is not None:
                self._transcript.add(">", f"{name} acknowledged", answer)
            return answer

        return heard

    def _record(self, socket: Any, method: str) -> None:
        send: Callable[..., Any] = getattr(socket, method)

        async def sending(event: str, data: object, **keywords: Any) -> Any:
            self._transcript.add(">", event, data)
            answer = await send(event, data, **keywords)
            if method == "call":
                self._transcript.add("<", f"{event} acknowledged", answer)
            return answer

        setattr(socket, method, sending)

    def _asked(self, request: Callable[..., Any]) -> Callable[..., Any]:
        async def asked(method: str, target: str, *, body: bytes, **keywords: Any) -> Any:
            self._transcript.add(">", f"{method} {target}", json.loads(body))
            reply = await request(method, target, body=body, **keywords)
            self._transcript.add("<", str(reply.status), json.loads(reply.body))
            return reply

        return asked


async def converse(workspace: Path) -> list[str]:
    transcript = Transcript()
    browser = BrowserSettings(enabled=False)  # what a window can do is told, and machines differ
    settings = SandboxSettings(shells=ShellSettings(working_dir=workspace), browser=browser)
    async with RunningHub() as hub:
        window = RecordedWindow(hub.url, hub.window, settings, transcript=transcript)
        async with window:
            await window.connect()
            link = hub.hub.windows(AGENT)
            action = CmdRun("echo hi", timeout=5.0, id=EventId(f"{'0' * 8}-0000-4000-8000-{1:012}"))
            await link.act(WindowId(window.id), action, on_progress=lambda _: None)
            await link.act(WindowId(window.id), action)
    # Whether the last acknowledgement came before the window left is nobody's concern.
    return transcript.lines[: _last(transcript.lines, "> oh_event {") + 1]


def _last(lines: list[str], beginning: str) -> int:
    return max(n for n, line in enumerate(lines) if line.startswith(beginning))


async def test_the_protocol_exchange_matches_the_recorded_transcript(tmp_path: Path) -> None:
    lines = await converse(tmp_path)
    said = "\n".join(lines).replace(str(tmp_path), "/workspace") + "\n"
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        KEPT.write_text(said)
    assert said == KEPT.read_text()


def test_every_event_and_field_of_the_transcript_is_documented(project: Path) -> None:
    page = (project / "docs/extension-protocol.md").read_text()
    for line in KEPT.read_text().splitlines():
        _, event, rest = line.split(" ", 2)
        if event in ("POST", "200") or rest.startswith("acknowledged"):
            continue
        assert f"`{event}" in page, event
    (registration,) = re.findall(r"^> POST \S+ (.*)$", KEPT.read_text(), re.MULTILINE)
    for field in json.loads(registration):
        assert f"`{field}`" in page, field
