"""The window case: its relay and probe are as bare as they claim, and a real window answers."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import socketio

from benchmarks import editor
from benchmarks.cases.language import CHANGES, IN_SANDBOX, LOOKUPS
from benchmarks.cases.window import WAYS
from benchmarks.entrants import BARE_LANGUAGE, BASCULE_LANGUAGE, BASCULE_WINDOW, Entrant
from benchmarks.workers import Worker
from tests.language_servers import path_with_servers

pytestmark = pytest.mark.slow


@pytest.fixture
def relay(project: Path) -> Iterator[str]:
    """The address of a relay in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.peers.relay"]
    process = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        yield process.stdout.readline().strip()
        process.terminate()
        process.wait(20)


async def connected(relay: str, role: str) -> socketio.AsyncClient:
    client = socketio.AsyncClient(reconnection=False)
    await client.connect(relay, transports=["websocket"], auth={"role": role})
    return client


async def test_the_relay_sends_an_echo_to_the_newest_window_and_returns_its_answer(
    relay: str,
) -> None:
    old, new = [await connected(relay, "window") for _ in range(2)]
    asker = await connected(relay, "asker")
    old.on("echo", lambda message: ["old", message])
    new.on("echo", lambda message: ["new", message])
    try:
        assert await asker.call("echo", {"a": 1}) == ["new", {"a": 1}]
    finally:
        for client in (asker, new, old):
            await client.disconnect()


def test_the_vsix_manifest_of_the_probe_matches_its_package_json() -> None:
    package = json.loads((editor.PROBE / "package.json").read_text())

    manifest = ET.fromstring(editor.vsix_manifest(package))

    space = {"": "http://schemas.microsoft.com/developer/vsx-schema/2011"}
    identity = manifest.find("Metadata/Identity", space)
    assert identity is not None
    assert identity.attrib["Id"] == package["name"]
    assert identity.attrib["Version"] == package["version"]
    assert identity.attrib["Publisher"] == package["publisher"]


def test_a_failed_program_is_reported_with_its_last_output(tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "editor"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho one >&2\necho 'missing: npm' >&2\nexit 1\n")
    script.chmod(0o755)

    with pytest.raises(editor.EditorMissing, match=r"^missing: npm$"):
        editor.prepare(tmp_path, install=True)


@pytest.fixture
def parts(project: Path) -> editor.Editor:
    return editor.prepare(project, install=True)


@pytest.mark.editor
def test_the_probe_package_contains_every_file_it_needs(parts: editor.Editor) -> None:
    with zipfile.ZipFile(parts.probe) as archive:
        main = archive.read("extension/main.js").decode()
        names = set(archive.namelist())

    assert {"[Content_Types].xml", "extension.vsixmanifest", "extension/package.json"} < names
    assert 'require("vscode")' in main
    assert 'require("socket.io-client")' not in main


@pytest.mark.editor
@pytest.mark.timeout(600)  # 170 s at a load of 25
def test_a_real_window_completes_its_benchmark_case(
    parts: editor.Editor, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "benchmarks").symlink_to(project / "benchmarks")
    worker = Worker(BASCULE_WINDOW, Path(sys.executable), tmp_path, parts.arguments)
    try:
        worker.greet()
        assert worker.family() == {worker.pid}, "nothing runs before it is asked for"
        worker.ask("window_open")
        seen = worker.ask("window_path", pieces=1, each=2, changes=1, integrated=1)
        language = worker.ask("window_language", count=1)
        back = worker.ask("window_reload")
        again = worker.ask("window_path", pieces=1, each=2, changes=1, integrated=1)
        worker.ask("window_close")

        assert worker.family() == {worker.pid}, "nothing is left when it is closed"
    finally:
        worker.stop()
    assert (seen.pop("wrong"), again.pop("wrong")) == (0, 0)
    assert seen.keys() == again.keys()
    assert 0 < back["reload_editor"] < back["reload"]
    for name in WAYS:
        assert 0 < seen[name] <= seen[f"{name}_p95"]
    pairs = {f"{name}{end}" for name in (*LOOKUPS, *CHANGES) for end in ("", "_bare")}
    assert language.keys() == {"echo", *pairs}
    assert min(language.values()) > 0


@pytest.mark.parametrize("entrant", [BASCULE_LANGUAGE, BARE_LANGUAGE], ids=lambda each: each.name)
def test_a_sandbox_and_a_bare_client_complete_the_language_case(
    entrant: Entrant, project: Path, tmp_path: Path
) -> None:
    servers = path_with_servers().partition(":")[0]
    (tmp_path / "benchmarks").symlink_to(project / "benchmarks")
    worker = Worker(entrant, Path(sys.executable), tmp_path)
    try:
        worker.greet()
        seen = worker.ask("language", servers=servers, count=1)
    finally:
        worker.stop()
    assert seen.keys() == set(IN_SANDBOX)
    assert min(seen.values()) > 0
