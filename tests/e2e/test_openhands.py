"""Agents and scripts at work in a real window."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.adapters.environment import openhands_python, run_suite

from .rig import EditorWindow, Rig


@pytest.fixture(scope="module")
def window(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    """With a folder in which nobody else has left files of the same names."""
    folder = tmp_path_factory.mktemp("agents") / "workspace"
    window = rig.wait(rig.open_window(folder))
    yield window
    rig.wait(window.page.context.close())


@pytest.mark.parametrize("example", ["openhands_v1", "mend_test"])
async def test_an_example_mends_a_failing_test_in_the_window(
    rig: Rig, window: EditorWindow, project: Path, tmp_path: Path, example: str
) -> None:
    file = project / "examples" / f"{example}.py"
    ours = {
        # Without it OpenHands asks the network for prices while it is imported, and where there
        # is no answer one import in four fails: two threads import the same modules at a time.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "PYTHONPATH": str(project / "src"),
        "BASCULE_HUB": rig.url,
        "BASCULE_TOKEN": await rig.agent_token(),
        "BASCULE_WINDOW": str(window.id),
    }
    is_agent = example == "openhands_v1"
    agent = await asyncio.create_subprocess_exec(
        openhands_python(project, "v1") if is_agent else sys.executable,
        file,
        cwd=tmp_path,
        env={**os.environ, **ours},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaints = await agent.communicate()

    assert agent.returncode == 0, complaints.decode()
    promised = re.findall("^# > (.*)$", file.read_text(), re.MULTILINE)
    assert said.decode().splitlines()[-len(promised) :] == promised
    assert "a + b" in (window.folder / "sums.py").read_text()

    async def look(page: Page) -> None:
        await expect(page.get_by_role("tab", name="sums.py").first).to_be_visible()

    await rig.on(look(window.page))


async def test_openhands_v0_with_its_own_controller_mends_a_test_in_the_window(
    rig: Rig, window: EditorWindow, project: Path, tmp_path: Path
) -> None:
    python = openhands_python(project, "v0")
    env = {
        "BASCULE_HUB": rig.url,
        "BASCULE_TOKEN": await rig.agent_token(),
        "BASCULE_WINDOW": str(window.folder),
        "HOME": str(tmp_path),
    }
    suite = "openhands_v0/test_controller.py"
    await asyncio.to_thread(run_suite, python, suite, project, tmp_path, only="window", **env)

    assert "a + b" in (window.folder / "sums.py").read_text()
