"""Agents and scripts at work in a real window."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, expect

from bascule.adapters.openhands_hub import OpenHandsV0Mount
from tests.adapters.environment import openhands_python, run_suite

from .rig import EditorWindow, Rig
from .session_ground import CAN_ISOLATE, TIMEOUT, session_ground


@pytest.fixture(scope="module")
def window(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorWindow]:
    """With a folder in which nobody else has left files of the same names."""
    folder = tmp_path_factory.mktemp("agents") / "workspace"
    window = rig.wait(rig.open_window(folder))
    yield window
    rig.wait(window.page.context.close())


@pytest.mark.parametrize("example", ["openhands_v1", "fix_failing_test"])
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


@pytest.mark.skipif(not CAN_ISOLATE, reason="sessions with users of their own need root and bwrap")
async def test_the_vscode_url_of_openhands_v0_is_the_session_also_in_a_frame_of_its_page(
    project: Path, tmp_path: Path
) -> None:
    python = openhands_python(project, "v0")
    page_socket = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{page_socket.getsockname()[1]}"
    mounts = (OpenHandsV0Mount,)
    async with session_ground(mounts=mounts, frame_origins=(origin,)) as ground:
        address = await _vscode_url(python, project, tmp_path, ground.url, ground.hub.agent)
        stranger = await ground.browser.new_context(viewport={"width": 1200, "height": 800})
        page = await stranger.new_page()
        async with _page(page_socket, f'<iframe src="{address}" width=1150 height=750></iframe>'):
            await page.goto(origin)
            frame = page.frame_locator("iframe")
            files = frame.locator(".explorer-folders-view")
            await expect(files).to_be_visible(timeout=TIMEOUT * 1000)
            await expect(files.get_by_text("by-openhands.txt")).to_be_visible()
            where = page.frames[1].url
        await stranger.close()

    session_id = urlsplit(address).path.split("/")[-2]
    assert where.startswith(f"{ground.origin(session_id)}/vscode/{session_id}/")
    assert "tkn=" not in where


async def _vscode_url(python: str, project: Path, tmp_path: Path, hub: str, token: str) -> str:
    """What OpenHands' own remote runtime says, once an agent's file is there."""
    env = {
        "RUNTIME": "remote",
        "SANDBOX_API_KEY": token,
        "SANDBOX_REMOTE_RUNTIME_API_URL": f"{hub}/openhands/v0",
        "SANDBOX_RUNTIME_CONTAINER_IMAGE": "none",
        "HOME": str(tmp_path),
    }
    openhands = await asyncio.create_subprocess_exec(
        *(python, project / "tests/adapters/openhands_v0/show_vscode.py", tmp_path / "store"),
        cwd=tmp_path,
        env={**os.environ, **env},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaints = await openhands.communicate()
    assert openhands.returncode == 0, complaints.decode()
    return said.decode().splitlines()[-1]


@asynccontextmanager
async def _page(sock: socket.socket, body: str) -> AsyncIterator[None]:
    """A page of another origin."""
    html = f"<!doctype html><title>a page</title>{body}".encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(html) + html)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, sock=sock):
        yield
