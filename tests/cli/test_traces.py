"""`--traces`: a real hub and a real sandbox export to a collector, over OTLP."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider

from bascule.cli.hub_settings import load
from bascule.core.actions import CmdRun
from bascule.core.errors import MissingExtra
from bascule.link.otel_tracing import OpenTelemetryTracing
from bascule.runtime import CloudRuntime, RemoteRuntime, SyncRuntime

from .processes import TIMEOUT, bascule, environment, serving
from .test_serve import serving as serving_hub

pytestmark = pytest.mark.slow


class Collector:
    """Receives spans as an OpenTelemetry collector does."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.spans: list[tuple[str, Any]] = []
        """The service's name, and the span."""
        self.headers: list[str | None] = []

    def take(self, body: bytes, header: str | None) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        self.headers.append(header)
        for resource in request.resource_spans:
            names = {each.key: each.value.string_value for each in resource.resource.attributes}
            self.spans += [
                (names["service.name"], span)
                for scope in resource.scope_spans
                for span in scope.spans
            ]


@contextmanager
def collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            received.take(body, self.headers.get("x-secret"))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        received = Collector(server.server_address[1])
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield received
        server.shutdown()


def test_a_hub_and_a_sandbox_export_their_parts_of_one_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's own spans go nowhere, so each top span here is below one of the client."""
    tracing, token = OpenTelemetryTracing(TracerProvider()), "t" * 20
    with collector() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-secret=s3cret")
        hub = serving_hub(
            tmp_path / "state",
            *("--allow-unisolated", "--traces"),
            cwd=tmp_path,
            BASCULE_TOKEN=token,
            BASCULE_SPAWNERS="plain",
        )
        with hub as (url, _):
            session = CloudRuntime(url, token, remove=True, tracing=tracing)
            with SyncRuntime(session) as runtime:
                seen = runtime.act(CmdRun("env | grep -c OTEL_"))
                assert getattr(seen, "content", "").strip() == "0"
        names = {(service, span.name) for service, span in received.spans}
        assert names == {("bascule-hub", "hub proxy"), ("bascule-hub", "sandbox request")}
        by_name = {span.name: span for _, span in received.spans}
        assert by_name["sandbox request"].parent_span_id == by_name["hub proxy"].span_id
        assert by_name["hub proxy"].parent_span_id != b""
        assert by_name["sandbox request"].trace_id == by_name["hub proxy"].trace_id
        assert set(received.headers) == {"s3cret"}

        received.spans.clear()
        monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
        with serving(tmp_path / "files", "--traces") as server:
            direct = RemoteRuntime(server.url, server.key, tracing=tracing)
            with SyncRuntime(direct) as runtime:
                seen = runtime.act(CmdRun("env | grep -c OTEL_.*HEADERS"))
                assert getattr(seen, "content", "").strip() == "0"
            server.process.terminate()
            server.process.wait(TIMEOUT)
        [(service, span)] = received.spans
        assert (service, span.name) == ("mine", "execute run")
        assert span.parent_span_id != b""


def test_traces_are_off_by_default_and_a_setting_turns_them_on(tmp_path: Path) -> None:
    assert load(None, {}, {}).traces is False
    assert load(None, {"BASCULE_TRACES": "true"}, {}).traces is True
    file = tmp_path / "hub.toml"
    file.write_text("traces = true\n")
    assert load(file, {}, {}).traces is True


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys\nsys.modules['opentelemetry.exporter.otlp.proto.http.trace_exporter'] = None\n"
    )
    refused = bascule(
        *("serve", "--port", "0", "--traces", "--state-dir", str(tmp_path / "state")),
        env=environment(PYTHONPATH=str(hidden), BASCULE_RUN_DIR=str(tmp_path)),
    )
    assert refused.returncode == 1
    assert "needs the extra `traces`" in refused.stderr
    assert MissingExtra.code == "machine.missing_extra"
