"""OpenHands V0's own remote runtime, as it is, with sessions of a hub behind it."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from openhands.core.exceptions import AgentRuntimeNotFoundError
from openhands.core.setup import create_runtime
from openhands.events.action import CmdRunAction, IPythonRunCellAction
from openhands.events.observation import CmdOutputObservation, IPythonRunCellObservation
from openhands.utils.async_utils import call_async_from_sync

from .making import configured, opened, use


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    use("remote", monkeypatch)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return configured("remote", None, tmp_path / "store")


def run(runtime: Any, command: str) -> str:
    seen = runtime.run_action(CmdRunAction(command))
    assert isinstance(seen, CmdOutputObservation), seen
    return str(seen.content)


def call(verb: str, **body: str) -> Any:
    """Ask the hub past the runtime."""
    url = f"{os.environ['BASCULE_HUB']}/openhands/v0{verb}"
    headers = {"X-API-Key": os.environ["BASCULE_TOKEN"]}
    reply = httpx.post(url, json=body, headers=headers) if body else httpx.get(url, headers=headers)
    return reply.raise_for_status().json()


def test_the_runtime_works_in_a_hub_session(config: Any, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "bytes").write_bytes(bytes(range(256)) * 1000)
    with opened(config, sid="works", headless_mode=False) as runtime:
        where = run(runtime, "pwd; whoami")
        cell = runtime.run_action(IPythonRunCellAction("print(6 * 7)"))
        runtime.copy_to(str(tmp_path / "source"), "/workspace", recursive=True)
        listed = runtime.list_files()
        with zipfile.ZipFile(packed := runtime.copy_from("/workspace/source")) as names:
            came_back = names.read("bytes")
        packed.unlink()
        address, hosts = runtime.vscode_url, runtime.web_hosts
        shown = httpx.get(address, headers={"Accept": "text/html"})

    session = runtime.runtime_id.rpartition("/")[2]
    assert where == "/workspace\nopenhands\n"
    assert isinstance(cell, IPythonRunCellObservation)
    assert cell.content.startswith("42\n")
    assert "source/" in listed
    assert came_back == bytes(range(256)) * 1000
    assert shown.status_code == 303
    assert shown.headers["location"].startswith(f"/vscode/{session}/?tkn=")
    assert sorted(hosts.values()) == [8011, 8012]
    assert runtime.runtime_id not in {each["runtime_id"] for each in call("/list")["runtimes"]}


def test_attaching_to_a_paused_runtime_finds_its_state(config: Any) -> None:
    config.sandbox.keep_runtime_alive = True
    config.sandbox.pause_closed_runtimes = True
    with opened(config, sid="paused") as runtime:
        run(runtime, "colour=blue; echo kept > file")
    paused = call("/sessions/paused")
    with opened(config, sid="paused") as runtime:
        seen = run(runtime, "echo $colour; cat file")
        config.sandbox.keep_runtime_alive = runtime.config.sandbox.keep_runtime_alive = False

    assert paused["status"] == "paused"
    assert seen == "blue\nkept\n"


def test_a_runtime_whose_session_ended_restarts_with_its_files(config: Any) -> None:
    config.sandbox.keep_runtime_alive = True
    with opened(config, sid="ended") as runtime:
        run(runtime, "echo kept > file")
        url = f"{os.environ['BASCULE_HUB']}/api/sessions/{runtime.runtime_id.rpartition('/')[2]}"
        key = {"Authorization": f"Bearer {os.environ['BASCULE_TOKEN']}"}
        httpx.post(f"{url}/stop", headers=key, timeout=60).raise_for_status()
        seen = run(runtime, "cat file")
        runtime.config.sandbox.keep_runtime_alive = False

    assert seen == "kept\n"


def test_attaching_fails_if_no_runtime_was_started(config: Any) -> None:
    runtime = create_runtime(config, sid="nobody")
    runtime.attach_to_existing = True
    with pytest.raises(AgentRuntimeNotFoundError):
        call_async_from_sync(runtime.connect)
