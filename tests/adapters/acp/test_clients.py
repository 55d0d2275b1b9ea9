"""Clients of others, unmodified, that start `bascule acp` as their agent: acpx and OpenHands V1."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bascule.runtime import CloudRuntime
from tests.acp_agents import node_program
from tests.adapters.environment import openhands_python
from tests.cli.processes import BASCULE, environment
from tests.hub.sessions.serving import SessionHub, SessionsClient, open_session_hub

from .client import SCRIPTED_AGENT
from .test_permissions import asked, question

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub() -> AsyncIterator[SessionHub]:
    async with open_session_hub() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime(hub: SessionHub) -> AsyncIterator[CloudRuntime]:
    async with CloudRuntime(hub.url, hub.agent) as opened:
        yield opened


async def run(hub: SessionHub, *command: str, cwd: Path) -> str:
    """Run a client to its end; returns its output."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=environment(BASCULE_HUB=hub.url, BASCULE_TOKEN=hub.agent, HOME=str(cwd)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, (output[-5000:], errors[-5000:])
    return output.decode()


def steps(path: str) -> str:
    """A prompt for the scripted agent: write a file, run a command, and ask."""
    return json.dumps(
        [
            {"ask": "fs/write_text_file", "params": {"path": path, "content": "by the agent\n"}},
            {"ask": "terminal/create", "params": {"command": "cat", "args": [path]}},
            question("make install"),
        ]
    )


async def test_acpx_runs_an_agent_in_a_session(
    hub: SessionHub, runtime: CloudRuntime, tmp_path: Path
) -> None:
    root = (await runtime.run("pwd")).content.strip()
    command = (*BASCULE, "acp", "--session", runtime.session_id, "--", *SCRIPTED_AGENT)
    output = await run(
        hub,
        *(*node_program("acpx/dist/cli.js"), "--approve-all", "--format", "json"),
        *("--agent", shlex.join(command), "exec", steps(f"{root}/acpx")),
        cwd=tmp_path,
    )
    assert (await runtime.read("acpx")).content == "by the agent\n"
    assert _said(output, "acp-1")
    assert _said(output, '"optionId": "yes"') or _said(output, '"optionId": "always"')


async def test_openhands_runs_an_agent_in_a_session_and_the_hub_decides(
    hub: SessionHub, runtime: CloudRuntime, project: Path, tmp_path: Path
) -> None:
    python = openhands_python(project, "v1")
    root = (await runtime.run("pwd")).content.strip()
    script = str(Path(__file__).with_name("openhands_client.py"))
    place = ("acp", "--session", runtime.session_id, "--ask", "hub")
    command = (*BASCULE, *place, "--", *SCRIPTED_AGENT)
    running = asyncio.create_task(
        run(hub, python, script, str(tmp_path), steps(f"{root}/openhands"), *command, cwd=tmp_path)
    )
    async with SessionsClient(hub.url) as admin:
        asking = asyncio.create_task(asked(admin, limit=240))
        await asyncio.wait({running, asking}, return_when=asyncio.FIRST_COMPLETED)
        assert asking.done(), await running
        at_hub: dict[str, Any] = asking.result()
        path = f"/api/approvals/{at_hub['session_id']}/{at_hub['id']}"
        await admin.must("POST", path, {"answer": "deny"})
    output = await running
    assert (await runtime.read("openhands")).content == "by the agent\n"
    assert _said(output, '"optionId": "no"')  # although OpenHands says yes to everything


def _said(output: str, text: str) -> bool:
    """Whether a text of the agent is in the output, which is JSON."""
    escaped = json.dumps(text)[1:-1]
    return any(each in output for each in (text, escaped, json.dumps(escaped)[1:-1]))
