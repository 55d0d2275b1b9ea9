"""Gemini CLI, Qwen Code and Claude Code, unmodified, behind `bascule acp` in a session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bascule.runtime import CloudRuntime
from tests.acp_agents import node_program
from tests.acp_agents.model import DONE, ScriptedModel, scripted_model
from tests.hub.sessions.serving import SessionHub, SessionsClient, open_session_hub

from .client import AcpClient, open_client
from .test_permissions import Person, asked, none_asked

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]

CWD = "/home/someone/project"


@dataclass(frozen=True)
class Agent:
    """How an agent is started, and what it calls its tools."""

    name: str
    program: str
    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    """`URL` stands for the address of the model."""
    write: str
    shell: str
    more: Mapping[str, Any] = field(default_factory=dict)
    """More arguments of the shell tool."""
    auth_method: str = ""
    mode: str = ""


AGENTS = [
    Agent(
        "Gemini CLI",
        "@google/gemini-cli/bundle/gemini.js",
        ("--acp",),
        {
            "GEMINI_API_KEY": "no-key",
            "GOOGLE_GEMINI_BASE_URL": "URL",
            "GEMINI_MODEL": "gemini-2.5-flash",  # otherwise another model chooses one first
        },
        "write_file",
        "run_shell_command",
        {"description": "a test"},
        "gemini-api-key",
    ),
    Agent(
        "Qwen Code",
        "@qwen-code/qwen-code/cli-entry.js",
        ("--acp",),
        {"OPENAI_API_KEY": "no-key", "OPENAI_BASE_URL": "URL/v1", "OPENAI_MODEL": "m"},
        "write_file",
        "run_shell_command",
        {"is_background": False, "description": "a test"},
        "openai",
        mode="default",  # its own default lets a model decide
    ),
    Agent(
        "Claude Code",
        "@agentclientprotocol/claude-agent-acp/dist/index.js",
        (),
        {"ANTHROPIC_API_KEY": "no-key", "ANTHROPIC_BASE_URL": "URL", "IS_SANDBOX": "1"},
        "Write",
        "Bash",
        {"description": "a test"},
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SessionHub]:
    rules: Path = tmp_path_factory.mktemp("rules") / "rules.toml"
    rules.write_text('[[deny]]\nrun = ["rm"]\nwhy = "removes files"\n')
    async with open_session_hub(rules=rules, rules_default="allow") as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime(hub: SessionHub) -> AsyncIterator[CloudRuntime]:
    async with CloudRuntime(hub.url, hub.agent) as opened:
        yield opened


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with scripted_model() as opened:
        yield opened


def option_of(params: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    found = next(each for each in params["options"] if each["kind"] == kind)
    return {"result": {"outcome": {"outcome": "selected", "optionId": found["optionId"]}}}


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
async def test_an_agent_works_in_a_session(
    agent: Agent,
    hub: SessionHub,
    runtime: CloudRuntime,
    model: ScriptedModel,
    tmp_path: Path,
) -> None:
    command = [*node_program(agent.program), *agent.arguments]
    variables: dict[str, Any] = {
        name: value.replace("URL", model.url) for name, value in agent.variables.items()
    } | {"HOME": str(tmp_path)}
    options = [word for name in variables for word in ("--env", name)]
    person = Person()
    async with (
        SessionsClient(hub.url) as admin,
        open_client(
            *("--session", runtime.session_id, *options),
            hub=hub.url,
            token=hub.agent,
            agent=command,
            answer=person.answer,
            **variables,
        ) as client,
    ):
        info = await client.result("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        assert info["protocolVersion"] == 1
        if agent.auth_method:
            await client.result("authenticate", {"methodId": agent.auth_method})
        opened = await client.result("session/new", {"cwd": CWD, "mcpServers": []})
        client.session = opened["sessionId"]
        if agent.mode:
            mode = {"sessionId": client.session, "modeId": agent.mode}
            await client.result("session/set_mode", mode)
        await _write_a_file(agent, client, runtime, model, person)
        await _run_a_command(agent, client, model, person, admin)
        await _stop(client, model)
        assert await client.end() == 0
        where = f"/api/sessions/{runtime.session_id}/timeline.jsonl"
        lines = (await admin.must("GET", where)).splitlines()
    calls = [each for each in map(json.loads, lines) if each.get("action") == "call_tool_mcp"]
    assert len(calls) >= 2


async def _write_a_file(
    agent: Agent,
    client: AcpClient,
    runtime: CloudRuntime,
    model: ScriptedModel,
    person: Person,
) -> None:
    """The client allows it."""
    root = (await runtime.run("pwd")).content.strip()
    name = agent.name.replace(" ", "-")
    model.steps = [(agent.write, {"file_path": f"{root}/{name}", "content": f"by {name}\n"})]
    model.prompt = "Write a file"
    running = asyncio.create_task(client.prompt(model.prompt))
    params = await person.next(running)
    await person.answers.put(option_of(params, "allow_once"))
    assert (await running)["stopReason"] == "end_turn", client.updates
    assert (await runtime.read(name)).content == f"by {name}\n"
    assert DONE in "".join(client.texts())
    # In the locations of the tool call, or in its diff.
    assert any(f'"path":"{CWD}/{name}"'.encode() in line for line in client.lines)


async def _run_a_command(
    agent: Agent,
    client: AcpClient,
    model: ScriptedModel,
    person: Person,
    admin: SessionsClient,
) -> None:
    """A person at the hub allows it; the client is told."""
    model.steps = [(agent.shell, {"command": "echo one-$((1 + 1)) > made", **agent.more})]
    model.prompt = "Run a command"
    running = asyncio.create_task(client.prompt(model.prompt))
    at_hub = await asked(admin)
    await person.next(running)
    path = f"/api/approvals/{at_hub['session_id']}/{at_hub['id']}"
    await admin.must("POST", path, {"answer": "once"})
    assert (await running)["stopReason"] == "end_turn"
    await person.answers.put({"result": {"outcome": {"outcome": "cancelled"}}})
    assert client.notifications[-1]["method"] == "$/cancel_request"
    await none_asked(admin)


async def _stop(client: AcpClient, model: ScriptedModel) -> None:
    model.is_waiting.clear()
    model.steps = [("wait", {})]
    model.prompt = "Wait for me"
    running = asyncio.create_task(client.prompt(model.prompt))
    assert await asyncio.to_thread(model.is_waiting.wait, 120)
    await client.send({"method": "session/cancel", "params": {"sessionId": client.session}})
    assert (await running)["stopReason"] == "cancelled"
