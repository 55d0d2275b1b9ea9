"""An agent of OpenHands at work in a real window."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from playwright.async_api import Page, expect

from tests.adapters.environment import openhands_python, run_suite

from .rig import EditorWindow, Rig


async def test_an_openhands_v1_agent_mends_a_program_in_the_window(
    rig: Rig, vscode_window: EditorWindow, project: Path, tmp_path: Path
) -> None:
    ours = {
        "PYTHONPATH": str(project / "src"),
        "BASCULE_HUB": rig.url,
        "BASCULE_TOKEN": await rig.agent_token(),
        "BASCULE_WINDOW": str(vscode_window.id),
    }
    agent = await asyncio.create_subprocess_exec(
        openhands_python(project, "v1"),
        project / "examples" / "openhands_v1.py",
        cwd=tmp_path,
        env={**os.environ, **ours},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaints = await agent.communicate()

    assert agent.returncode == 0, complaints.decode()
    assert said.decode().splitlines()[-1] == "['False', 'True']"
    assert (vscode_window.folder / "sums.py").read_text() == "print(2 + 2 == 4)\n"

    async def look(page: Page) -> None:
        await expect(page.get_by_role("tab", name="sums.py").first).to_be_visible()

    await rig.on(look(vscode_window.page))


async def test_openhands_v0_with_its_own_controller_mends_a_test_in_the_window(
    rig: Rig, vscode_window: EditorWindow, project: Path, tmp_path: Path
) -> None:
    python = openhands_python(project, "v0")
    env = {
        "BASCULE_HUB": rig.url,
        "BASCULE_TOKEN": await rig.agent_token(),
        "BASCULE_WINDOW": str(vscode_window.folder),
        "HOME": str(tmp_path),
    }
    suite = "openhands_v0/test_controller.py"
    await asyncio.to_thread(run_suite, python, suite, project, tmp_path, only="window", **env)

    assert "a + b" in (vscode_window.folder / "sums.py").read_text()
