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

from .making import SANDBOX, WINDOW, configured


@pytest.mark.parametrize("kind", [SANDBOX, WINDOW], ids=["sandbox", "window"])
async def test_an_agent_mends_a_failing_test(kind: str, tmp_path: Path) -> None:
    if kind == WINDOW and "BASCULE_HUB" not in os.environ:
        pytest.skip("no window here; tests/adapters/test_openhands_v0.py brings one")
    folder = Path(os.environ["BASCULE_WINDOW"]) if kind == WINDOW else tmp_path / "workspace"
    folder.mkdir(exist_ok=True)
    (folder / "sums.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "check.py").write_text("from sums import add\nassert add(2, 2) == 4\n")
    edit = {"command": "str_replace", "path": f"{folder}/sums.py", "security_risk": "LOW"}
    script: list[Call] = [
        ("execute_bash", {"command": "python3 check.py", "security_risk": "LOW"}),
        ("str_replace_editor", {**edit, "old_str": "a - b", "new_str": "a + b"}),
        ("execute_bash", {"command": "python3 check.py && echo passed", "security_risk": "LOW"}),
        ("finish", {"message": "It is mended."}),
    ]
    with serving(script) as model:
        config = configured(kind, folder, tmp_path / "store", max_iterations=10)
        config.set_llm_config(
            LLMConfig(model="openai/gpt-4o", base_url=model.url, api_key=SecretStr("none"))
        )
        config.get_agent_config().enable_mcp = False
        state: Any = await run_controller(config, MessageAction("Mend it."), sid=kind[-9:])

    answers = [event.content for event in state.history if hasattr(event, "exit_code")]
    assert state.agent_state == AgentState.FINISHED
    assert "AssertionError" in answers[0]
    assert answers[1] == "passed\n"
    assert "a + b" in (folder / "sums.py").read_text()
