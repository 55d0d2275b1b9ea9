"""Evaluations of Inspect AI in sessions."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from inspect_ai.util import SandboxUserUnsupportedError
from inspect_ai.util._sandbox.environment import SandboxUnavailableError

from bascule.adapters.inspect_ai import BasculeSandboxEnvironment, SessionConfig
from bascule.core.errors import InvalidRequest, InvalidSetting
from bascule.link.sessions import HubSession

from .conftest import sessions

_EVALUATION = """
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash

command = {"command": "cat data.txt made; echo $KIND"}
outputs = [
    ModelOutput.for_tool_call("mockllm/model", "bash", command),
    ModelOutput.from_content("mockllm/model", "I saw the word"),
]
for each in outputs:
    each.usage = ModelUsage()  # to count tokens, the mock model would download a vocabulary
sample = Sample(
    "Which word?", target="word", files={"data.txt": "from a file"}, setup="echo from setup >made"
)
task = Task([sample], solver=[use_tools([bash()]), generate()], scorer=includes())
model = get_model("mockllm/model", custom_outputs=outputs)
[log] = eval(task, model=model, sandbox=("bascule", "bascule.toml"), display="none")
assert log.status == "success", log.error
tools = [each.error or each.text for each in log.samples[0].messages if each.role == "tool"]
print("RESULT", log.results.scores[0].metrics["accuracy"].value, tools)
"""


@pytest.mark.usefixtures("no_session_is_left")
def test_an_evaluation_with_a_mock_model_runs_in_a_session(project: Path, tmp_path: Path) -> None:
    """In a process of its own, which finds the provider by the entry point of our package."""
    (tmp_path / "evaluation.py").write_text(_EVALUATION)
    (tmp_path / "bascule.toml").write_text('[environment]\nKIND = "from the settings"\n')
    _write_metadata(project, tmp_path / "packages")
    path = os.pathsep.join((str(project / "src"), str(tmp_path / "packages")))
    ran = subprocess.run(
        [sys.executable, "evaluation.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-5000:]
    result = next(line for line in ran.stdout.splitlines() if line.startswith("RESULT"))
    printed = "from a filefrom setup\nfrom the settings\n"
    assert result == f"RESULT 1.0 {[printed]}"


def _write_metadata(project: Path, directory: Path) -> None:
    """The metadata that an installed Bascule has: here its source is on the path."""
    points = tomllib.loads((project / "pyproject.toml").read_text())["project"]["entry-points"]
    information = directory / "bascule-0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: bascule\nVersion: 0\n")
    lines = [
        line
        for group, names in points.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in names.items()))
    ]
    (information / "entry_points.txt").write_text("\n".join(lines) + "\n")


async def test_people_reach_the_session_of_a_sample() -> None:
    opened = await BasculeSandboxEnvironment.sample_init("task\n1", None, {})
    session = opened["default"]
    try:
        connection = await session.connection()
        [found] = [each for each in await _sessions() if each.id == connection.container]
        assert found.name == "inspect: task1"
        assert connection.vscode_command == ["vscode.open", found.vscode_url]
        hub = os.environ["BASCULE_HUB"]
        assert connection.command == f"bascule session attach {found.id} --hub {hub}"
        with pytest.raises(NotImplementedError):
            await session.connection(user="root")
        whoami = (await session.exec(["id", "-un"])).stdout.strip()
        assert (await session.exec(["id", "-un"], user=whoami)).stdout.strip() == whoami
        with pytest.raises(SandboxUserUnsupportedError, match="root"):
            await session.exec(["id"], user="root")
        missing = await session.exec(["no-such-program"])
        assert (missing.success, missing.returncode) == (False, 127)
        assert "no-such-program" in missing.stderr
        await BasculeSandboxEnvironment.cli_cleanup(None)
        assert found.id not in [each.id for each in await _sessions()]
        with pytest.raises(SandboxUnavailableError):
            await session.exec(["true"])
    finally:
        await BasculeSandboxEnvironment.cli_cleanup(None)


async def _sessions() -> list[HubSession]:
    return [*await asyncio.to_thread(sessions)]


async def test_wrong_settings_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = BasculeSandboxEnvironment.sample_init
    with pytest.raises(InvalidRequest, match="imagine"):
        await start("task", SessionConfig.model_validate({"imagine": "x"}), {})
    (tmp_path / "bad.toml").write_text("not toml")
    for name in ("bad.toml", "missing.toml"):
        with pytest.raises(InvalidSetting, match=name):
            await start("task", str(tmp_path / name), {})
    monkeypatch.delenv("BASCULE_HUB")
    with pytest.raises(InvalidSetting, match="BASCULE_HUB"):
        await start("task", None, {})
