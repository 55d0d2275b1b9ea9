"""OpenHands' own agent server, told no more than to import us, serves a client that knows nothing.

The model is a server too: TestLLM's script does not travel to another process.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.model import Call, Model, serving

KEY = "a-key-for-tests"

CLIENT = """
import sys
from openhands.sdk import Agent, Conversation, LLM, Tool, Workspace
from openhands.sdk.event import ObservationEvent
from openhands.tools.terminal import TerminalTool
from openhands.tools.file_editor import FileEditorTool

server, key, model, folder = sys.argv[1:]
llm = LLM(model="openai/gpt-4o", base_url=model, api_key="none", num_retries=0, usage_id="test")
tools = [Tool(name=name) for name in (TerminalTool.name, FileEditorTool.name, "vscode")]
talk = Conversation(
    agent=Agent(llm=llm, tools=tools),
    workspace=Workspace(host=server, api_key=key, working_dir=folder),
    visualizer=None,
)
talk.send_message("Please.")
talk.run()
for event in talk.state.events:
    if isinstance(event, ObservationEvent) and event.tool_name != "finish":
        print(event.observation.text.strip())
assert not any(name.startswith("bascule") for name in sys.modules)
talk.close()
"""


@pytest.fixture
def model() -> Iterator[Model]:
    edit = {"command": "create", "path": "made", "file_text": "by an agent\n"}
    script: list[Call] = [
        ("terminal", {"command": "cd /; (exit 3)"}),
        ("terminal", {"command": "exit 4"}),
        ("file_editor", edit),
        ("terminal", {"command": "cat made"}),
        ("finish", {"message": "Done."}),
    ]
    with serving(script) as model:
        yield model


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "OH_SESSION_API_KEYS_0": KEY,
        "OH_PRELOAD_TOOLS": "false",
        "OH_ENABLE_VSCODE": "false",
        "OH_SECRET_KEY": "x",
        "PYTHONUNBUFFERED": "1",
    }
    options = ["--host", "127.0.0.1", "--port", str(port)]
    options += ["--import-modules", "bascule.adapters.openhands_v1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "openhands.agent_server", *options],
        cwd=tmp_path,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            if "startup complete" in line.lower():
                break
        else:
            pytest.fail("".join(said))
        drain = threading.Thread(target=process.stdout.read)
        drain.start()
        yield f"http://127.0.0.1:{port}"
        process.terminate()
        process.wait(30)
        drain.join()
    finally:
        process.kill()


@pytest.mark.timeout(400)  # it and its client load for a minute each on a machine that is busy
def test_bascule_executors_serve_an_unmodified_remote_client(
    tmp_path: Path, server: str, model: Model
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", CLIENT, server, KEY, model.url, str(folder)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert "by an agent" in lines
    assert f"File created successfully at: {folder}/made" in lines
    assert (folder / "made").read_text() == "by an agent\n"
    assert model.script == []
