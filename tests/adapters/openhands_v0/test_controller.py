"""OpenHands V0's own controller and agent mend a failing test, with a model that is scripted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from openhands.core.config.llm_config import LLMConfig
from openhands.core.main import run_controller
from openhands.core.schema import AgentState
from openhands.events.action import MessageAction
from pydantic import SecretStr

from tests.adapters.model import Call, serving

from .making import Kind, configured, use

SUMS = "def add(a, b):\n    return a\n"
"""Not as long as when it is mended: Python knows by the size, and the second of the time, whether a
module was changed since it compiled it, and all of this takes less than a second."""
CHECK = "from sums import add\nassert add(2, 2) == 4\n"


@pytest.mark.parametrize("kind", ["sandbox", "window", "remote"])
async def test_an_agent_mends_a_failing_test(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(kind, monkeypatch)
    folder = _folder(kind, tmp_path)
    low = {"security_risk": "LOW"}
    script: list[Call] = [
        *(_creation(f"{folder}/{name}", text) for name, text in _files(kind, folder)),
        ("execute_bash", {"command": "python3 check.py", **low}),
        (
            "str_replace_editor",
            {
                "command": "str_replace",
                "path": f"{folder}/sums.py",
                "old_str": "return a",
                "new_str": "return a + b",
                **low,
            },
        ),
        ("execute_bash", {"command": "python3 check.py && echo passed; cat sums.py", **low}),
        ("finish", {"message": "It is mended."}),
    ]
    with serving(script) as model:
        base = None if kind == "remote" else folder
        config = configured(kind, base, tmp_path / "store", max_iterations=10)
        config.set_llm_config(
            LLMConfig(model="openai/gpt-4o", base_url=model.url, api_key=SecretStr("none"))
        )
        config.get_agent_config().enable_mcp = False
        state: Any = await run_controller(config, MessageAction("Mend it."), sid=f"mend-{kind}")

    answers = [event.content for event in state.history if hasattr(event, "exit_code")]
    assert state.agent_state == AgentState.FINISHED
    assert "AssertionError" in answers[0]
    assert answers[1].startswith("passed\n")
    assert "a + b" in answers[1]


def _folder(kind: Kind, tmp_path: Path) -> Path:
    match kind:
        case "window":
            return Path(os.environ["BASCULE_WINDOW"])
        case "remote":
            return Path("/workspace")
        case _:
            return tmp_path / "workspace"


def _files(kind: Kind, folder: Path) -> list[tuple[str, str]]:
    """What the agent has to make itself, since it works where we cannot; else it is made."""
    files = [("sums.py", SUMS), ("check.py", CHECK)]
    if kind == "remote":
        return files
    folder.mkdir(exist_ok=True)
    for name, text in files:
        (folder / name).write_text(text)
    return []


def _creation(path: str, text: str) -> Call:
    made = {"command": "create", "path": path, "file_text": text, "security_risk": "LOW"}
    return "str_replace_editor", made
