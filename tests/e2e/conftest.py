"""Fixtures with a real VS Code. When a test fails, pictures and logs are kept in `.e2e/`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from bascule.core.editor_actions import VscodeCommand
from bascule.runtime.vscode import VSCodeRuntime

from .code_server import WAITING
from .driving import discard_changes
from .rig import EditorWindow, Rig

_PICTURES = Path(__file__).parents[2] / ".e2e"

# A window shares the machine with everything it starts, and with other windows.
expect.set_options(timeout=WAITING)
_TIMEOUT = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.editor)
            item.add_marker(pytest.mark.slow)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_TIMEOUT))


@pytest.fixture(scope="session")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    rig = Rig(tmp_path_factory.mktemp("rig"))
    rig.open()
    yield rig
    rig.close()


@pytest.fixture(scope="session")
def vscode_window(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> EditorWindow:
    """One window for all tests that leave it as it was: the folder is emptied between them."""
    return rig.wait(rig.open_window(tmp_path_factory.mktemp("shared") / "workspace"))


@pytest.fixture
async def runtime(rig: Rig, vscode_window: EditorWindow) -> AsyncIterator[VSCodeRuntime]:
    """The shared window, for an agent of its own, whose terminals are closed afterwards."""
    token = await rig.agent_token()
    async with VSCodeRuntime(rig.url, token, window=vscode_window.id) as runtime:
        yield runtime
        await runtime.act(VscodeCommand("workbench.action.terminal.killAll"))


@pytest.fixture
async def folder(
    rig: Rig, vscode_window: EditorWindow, runtime: VSCodeRuntime
) -> AsyncIterator[Path]:
    """The shared window's folder; its editors are closed afterwards, changes discarded."""
    yield vscode_window.folder
    await runtime.act(VscodeCommand("workbench.action.revertAndCloseActiveEditor"))
    # VS Code asks about an editor that is still changed, and the command waits for the answer.
    answering = asyncio.create_task(rig.on(discard_changes(vscode_window.page)))
    await runtime.act(VscodeCommand("workbench.action.closeAllEditors"))
    answering.cancel()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    rig = getattr(item, "funcargs", {}).get("rig")
    if report.failed and isinstance(rig, Rig) and rig.is_open:
        _PICTURES.mkdir(exist_ok=True)
        kept = _PICTURES / item.name.replace("/", "_")
        rig.wait(rig.screenshot(kept))
        rig.keep_logs(kept)
    return report
