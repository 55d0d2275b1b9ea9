"""Agents of the Agent Client Protocol beside a real window: its text, its undo, its terminals."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from bascule.core.editor_actions import OpenFile, VscodeCommand
from bascule.runtime.vscode import VSCodeRuntime
from tests.acp_agents import node_program
from tests.acp_agents.model import scripted_model
from tests.adapters.acp.client import open_client
from tests.adapters.acp.test_agents import AGENTS, option_of
from tests.adapters.acp.test_permissions import Person
from tests.contracts.programs import ended

from .rig import EditorWindow, Rig
from .test_actions import _focus, _type


async def test_files_and_terminals_are_those_of_the_window(
    rig: Rig, vscode_window: EditorWindow, runtime: VSCodeRuntime, folder: Path
) -> None:
    file = folder / "open.txt"
    file.write_text("saved\n")
    await runtime.act(OpenFile("open.txt", preview=False))
    await rig.on(_type(vscode_window.page, "open.txt", "not yet "))
    async with open_client(
        *("--window", vscode_window.id), hub=rig.url, token=await rig.agent_token(), cwd=folder
    ) as client:
        await client.begin(str(folder))
        path = {"path": str(file)}
        read = {"ask": "fs/read_text_file", "params": path}
        write = {"ask": "fs/write_text_file", "params": {**path, "content": "a\nb\nno newline"}}
        found: dict[str, str] = {}
        while found != {"content": "not yet saved\n"}:  # the extension host learns it a bit later
            (found,) = await client.steps(read)
        (refused,) = await client.steps(write)
        assert "has not saved" in refused["error"]["message"]
        await runtime.act(VscodeCommand("workbench.action.files.save"))
        written, again = await client.steps(write, read)
        assert (written, again) == ({}, {"content": "a\nb\nno newline"})
        await rig.on(_focus(vscode_window.page, "open.txt"))
        await runtime.act(VscodeCommand("undo"))
        (undone,) = await client.steps(read)
        assert undone == {"content": "not yet saved\n"}

        script = "pwd; printf 'x\\ty\\n'; echo $WORD >&2; exit 3"
        env = [{"name": "WORD", "value": "a  b"}]
        create = {"command": "sh", "args": ["-c", script], "env": env}
        (opened,) = await client.steps({"ask": "terminal/create", "params": create})
        name = {"terminalId": opened["terminalId"]}
        over, output = await client.steps(
            {"ask": "terminal/wait_for_exit", "params": name},
            {"ask": "terminal/output", "params": name},
        )
        assert over == {"exitCode": 3, "signal": None}
        assert output["output"].replace("\r\n", "\n") == f"{folder}\nx\ty\na b\n"
        long = {"command": "echo $$; exec sleep 1000"}
        (opened,) = await client.steps({"ask": "terminal/create", "params": long})
        name = {"terminalId": opened["terminalId"]}
        shown = ""
        while not shown.endswith("\n"):
            (seen,) = await client.steps({"ask": "terminal/output", "params": name})
            shown = seen["output"]
        (described,) = await client.steps({"describe": 1})
        servers = described["opened"]["mcpServers"]
        assert [each["name"] for each in servers] == ["bascule"]
        (outside,) = await client.steps(
            {"ask": "fs/read_text_file", "params": {"path": "/etc/passwd"}}
        )
        assert outside["error"]["code"] == -32602
        assert await client.end() == 0
    await ended(int(shown))


async def test_an_unmodified_agent_edits_through_the_window(
    rig: Rig, vscode_window: EditorWindow, runtime: VSCodeRuntime, folder: Path, tmp_path: Path
) -> None:
    agent = AGENTS[0]
    person = Person()
    file = folder / "greeting.txt"
    file.write_text("hello\n")
    await runtime.act(OpenFile("greeting.txt", preview=False))
    with scripted_model() as model:
        variables: dict[str, Any] = {
            **{name: value.replace("URL", model.url) for name, value in agent.variables.items()},
            "HOME": str(tmp_path),
        }
        async with open_client(
            *("--window", vscode_window.id),
            *(word for name in variables for word in ("--env", name)),
            hub=rig.url,
            token=await rig.agent_token(),
            agent=[*node_program(agent.program), *agent.arguments],
            answer=person.answer,
            cwd=folder,
            **variables,
        ) as client:
            await client.result("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            await client.result("authenticate", {"methodId": agent.auth_method})
            opened = await client.result("session/new", {"cwd": str(folder), "mcpServers": []})
            client.session = opened["sessionId"]
            replace = {"old_string": "hello", "new_string": "good morning"}
            model.steps = [
                ("read_file", {"file_path": str(file)}),
                ("replace", {"file_path": str(file), "instruction": "greet", **replace}),
            ]
            running = asyncio.create_task(client.prompt("Change the greeting"))
            params = await person.next(running)
            await person.answers.put(option_of(params, "allow_once"))
            assert (await running)["stopReason"] == "end_turn"
    assert (await runtime.read(str(file))).content == "good morning\n"
    await rig.on(_focus(vscode_window.page, "greeting.txt"))
    await runtime.act(VscodeCommand("undo"))
    assert (await runtime.read(str(file))).content == "hello\n"
