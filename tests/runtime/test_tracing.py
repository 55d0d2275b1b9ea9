"""One trace of an action: from its client, through a hub, to the window or sandbox that runs it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind, StatusCode

from bascule.core.actions import CmdRun, FileRead
from bascule.core.errors import OutcomeUnknown
from bascule.core.observations import Error
from bascule.core.tracing import TRACEPARENT, valid_traceparent
from bascule.link.otel_tracing import OpenTelemetryTracing
from bascule.runtime import CloudRuntime, RemoteRuntime, VSCodeRuntime
from bascule.sandbox.server.server import SandboxServer
from bascule.sandbox.settings import SandboxSettings, ServerSettings
from bascule.sandbox.shell.settings import ShellSettings
from tests.hub.serving import ADMIN, Client, RunningHub
from tests.hub.sessions.serving import SessionsClient, open_session_hub

pytestmark = pytest.mark.slow

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE}-b7ad6b7169203331-01"
"""The span of a client that is not ours."""


class Recorded(SpanProcessor):
    """Spans that ended, of everything in this test."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []
        self._ended = asyncio.Event()
        self.provider = TracerProvider()
        self.provider.add_span_processor(self)
        self.tracing = OpenTelemetryTracing(self.provider)

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)
        self._ended.set()

    async def until(self, *names: str) -> None:
        """Wait until these spans have ended: those of a hub end after its answer."""
        async with asyncio.timeout(60):
            while not set(names) <= {each.name for each in self.spans}:
                self._ended.clear()
                await self._ended.wait()

    def clear(self) -> None:
        self.spans.clear()

    def chain(self, name: str) -> list[str]:
        """The names from the root to the only span `name`; `…` is a span of somebody else."""
        [span] = [each for each in self.spans if each.name == name]
        by_id = {each.context.span_id: each for each in self.spans if each.context is not None}
        names = [span.name]
        while span.parent is not None:
            above = by_id.get(span.parent.span_id)
            if above is None:
                return ["…", *names]
            assert _trace_id(above) == _trace_id(span)
            assert _start(above) <= _start(span) <= _end(span)
            span = above
            names.insert(0, span.name)
        return names

    def outcome(self, name: str) -> object:
        [span] = [each for each in self.spans if each.name == name]
        return (span.attributes or {}).get("bascule.outcome")


def _trace_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.trace_id)


def _start(span: ReadableSpan) -> int:
    return span.start_time or 0


def _end(span: ReadableSpan) -> int:
    return span.end_time or 0


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    recorded = Recorded()
    yield recorded
    recorded.provider.shutdown()


async def test_an_action_in_a_remote_sandbox_is_one_trace(
    recorded: Recorded, tmp_path: Path
) -> None:
    settings = SandboxSettings(shells=ShellSettings(working_dir=tmp_path))
    server = SandboxServer(ServerSettings(key="key"), settings, tracing=recorded.tracing)
    async with server, RemoteRuntime(server.url, "key", tracing=recorded.tracing) as runtime:
        await runtime.act(CmdRun("true"))
        assert recorded.chain("execute run") == ["act run", "execute run"]
        kinds = {each.name: each.kind for each in recorded.spans}
        assert kinds == {"act run": SpanKind.CLIENT, "execute run": SpanKind.SERVER}
        assert TRACEPARENT.get() == ""

        recorded.clear()
        with recorded.provider.get_tracer("agent").start_as_current_span("think"):
            await runtime.act(CmdRun("echo hi"), on_progress=lambda _: None)
        assert recorded.chain("execute run") == ["think", "act run", "execute run"]

        recorded.clear()
        observation = await runtime.act(FileRead(str(tmp_path / "nothing")))
        assert isinstance(observation, Error)
        assert recorded.outcome("act read") == observation.error_id
        assert recorded.outcome("execute read") == observation.error_id
        assert {each.status.status_code for each in recorded.spans} == {StatusCode.ERROR}


async def test_an_action_in_a_session_is_one_trace(recorded: Recorded) -> None:
    async with (
        open_session_hub(tracing=recorded.tracing) as hub,
        SessionsClient(hub.url) as client,
    ):
        session = await client.ready()
        async with CloudRuntime(
            hub.url, ADMIN, session_id=session, tracing=recorded.tracing
        ) as runtime:
            assert recorded.spans == []  # calls without a `traceparent` are not traced
            seen = await runtime.run("echo $TRACEPARENT")
            assert seen.content.strip() == ""
        await recorded.until("hub proxy")
        assert recorded.chain("sandbox request") == ["act run", "hub proxy", "sandbox request"]

        recorded.clear()
        event = {"action": "run", "args": {"command": "true", "blocking": True}}
        path = f"/api/sessions/{session}/actions"
        await client.must("POST", path, event, headers={"traceparent": CALLER})
        await recorded.until("hub POST")
        assert recorded.chain("sandbox run") == ["…", "hub POST", "sandbox run"]
        assert {f"{_trace_id(each):032x}" for each in recorded.spans} == {TRACE}
        assert recorded.outcome("sandbox run") == "run"


async def test_an_action_in_a_window_is_one_trace(recorded: Recorded, tmp_path: Path) -> None:
    async with RunningHub(tracing=recorded.tracing) as hub, hub.fake_window(tmp_path) as window:
        async with VSCodeRuntime(hub.url, hub.agent, tracing=recorded.tracing) as runtime:
            await runtime.act(CmdRun("true"))
        assert recorded.chain("window run") == ["act run", "hub run", "window run"]
        assert recorded.outcome("window run") == "run"
        kinds = {each.name: each.kind for each in recorded.spans}
        assert kinds["hub run"] == SpanKind.SERVER
        assert len(window.done) == 1

        recorded.clear()
        async with Client(hub.url, token=hub.agent) as agent:
            path = f"/api/vscode/instance/{runtime.window.id}/actions"
            event = {"action": "run", "args": {"command": "true"}}
            for traceparent, top in ((CALLER, ["…", "hub POST"]), ("00-invalid", [])):
                recorded.clear()
                headers = {"traceparent": traceparent}
                assert (await agent.ask("POST", path, event, headers=headers))[0] == 200
                await recorded.until(*top[1:])
                assert recorded.chain("window run") == [*top, "hub run", "window run"]

            recorded.clear()
            gone = "/api/vscode/instance/00000000-0000-4000-8000-000000000000/actions"
            await agent.ask("POST", gone, event, headers={"traceparent": CALLER})
            await recorded.until("hub POST")
            assert recorded.outcome("hub POST") == "404"
            assert recorded.chain("hub POST") == ["…", "hub POST"]


async def test_a_lost_window_ends_the_spans_with_the_error(
    recorded: Recorded, tmp_path: Path
) -> None:
    async with (
        RunningHub(tracing=recorded.tracing) as hub,
        hub.fake_window(tmp_path) as window,
        VSCodeRuntime(hub.url, hub.agent, tracing=recorded.tracing, patience=0.1) as runtime,
    ):
        started = asyncio.Event()
        action = CmdRun("echo started; sleep 100")
        acting = asyncio.create_task(runtime.act(action, on_progress=lambda _: started.set()))
        await started.wait()
        await window.aclose()
        with pytest.raises(OutcomeUnknown):
            await acting
    assert recorded.outcome("window run") == recorded.outcome("hub run") == "window.gone"
    assert recorded.chain("window run")[0] == "act run"


async def test_without_tracing_nothing_is_sent_or_imported(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from pathlib import Path
from bascule.runtime import CloudRuntime, LocalRuntime, RemoteRuntime, VSCodeRuntime
import bascule.cli.sandbox, bascule.sandbox.server.server
client = [name for name in sys.modules if name.startswith("opentelemetry")]
import bascule.hub, bascule.cli.serve
hub = [name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exp"))]
print(client, hub, "bascule.link.otel_tracing" in sys.modules)
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert found.stdout.strip() == "[] [] False"


@pytest.mark.parametrize(
    ("value", "is_valid"),
    [
        (CALLER, True),
        (None, False),
        ("", False),
        (CALLER + "\r\nx: y", False),
        (CALLER.upper(), False),
        (17, False),
    ],
)
def test_a_traceparent_of_a_stranger_is_checked(value: object, is_valid: bool) -> None:
    assert valid_traceparent(value) == (value if is_valid else "")
