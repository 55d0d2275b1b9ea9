"""The real server, without a browser: tests/e2e has one."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from bascule.core.errors import MissingTool, SandboxStartFailed
from bascule.sandbox.vscode.installation import Installation
from bascule.sandbox.vscode.server import VSCodeServer, VSCodeSettings
from tests.e2e.code_server import build_extension, install_editor

pytestmark = pytest.mark.slow

Make = Callable[[], VSCodeServer]


@pytest.fixture(scope="session")
def parts() -> tuple[Installation, Path]:
    return Installation(install_editor()), build_extension()


@pytest.fixture
def make(parts: tuple[Installation, Path], tmp_path: Path) -> Make:
    """A server on the data of this test; each call another one."""
    installation, extension = parts
    settings = VSCodeSettings(
        data=tmp_path / "data",
        extension=extension,
        hub="http://127.0.0.1:9",
        token="a-window-token",
        environment={"PATH": os.environ["PATH"], "PASSWORD": "not ours", "VSCODE_PID": "1"},
    )
    return lambda: VSCodeServer(installation, settings)


def client() -> httpx.AsyncClient:
    return httpx.AsyncClient(trust_env=False, follow_redirects=True)


@pytest.mark.editor
async def test_vscode_opens_only_with_the_full_url(make: Make, tmp_path: Path) -> None:
    async with make() as server, client() as invited, client() as stranger:
        page = await invited.get(server.address(tmp_path))
        refused = await stranger.get(server.url)
        through = await invited.get(f"{server.url}/proxy/9/")

    assert "workbench" in page.text
    assert page.url.params["folder"] == str(tmp_path)
    assert refused.url.path == "/login"
    assert through.status_code == 403  # it leads to no other port of this machine


@pytest.mark.editor
async def test_a_restarted_vscode_keeps_its_url_and_browser_sessions(
    make: Make, tmp_path: Path
) -> None:
    async with client() as browser:
        async with make() as server:
            before = server.url
            await browser.get(server.address(tmp_path))
        async with make() as server:
            again = await browser.get(server.url)

    assert server.url == before
    assert "workbench" in again.text


@pytest.mark.editor
async def test_the_vscode_token_file_is_private_and_removed_with_the_server(
    make: Make, tmp_path: Path
) -> None:
    async with make() as server:
        assert server._run is not None
        token = server._run / "token"
        assert token.read_text() == "a-window-token"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600

    assert not token.parent.exists()
    assert "a-window-token" not in (tmp_path / "data/Machine/settings.json").read_text()


@pytest.mark.editor
async def test_two_vscode_servers_cannot_share_a_data_directory(make: Make) -> None:
    async with make():
        with pytest.raises(SandboxStartFailed, match="runs already"):
            async with make():
                pass


async def test_a_vscode_that_is_not_installed_does_not_start(tmp_path: Path) -> None:
    settings = VSCodeSettings(data=tmp_path / "data", extension=tmp_path / "none.vsix")
    with pytest.raises(MissingTool):
        async with VSCodeServer(Installation(tmp_path), settings):
            pass

    assert not (tmp_path / "data").exists()
