"""`bascule up` with a hub and, in some of these, a real VS Code in a real browser."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from playwright.async_api import Page

from .processes import Terminal, at_terminal, bascule, ended, environment

pytestmark = pytest.mark.slow


@pytest.fixture
def env(tmp_path: Path) -> Mapping[str, str]:
    """A user whose hub is not that of whoever runs the tests, without a screen."""
    own = {"TERM": "dumb", "COLUMNS": "500", "XDG_STATE_HOME": str(tmp_path / "state")}
    clean = environment(BASCULE_PORT="0", **own)
    return {
        name: value
        for name, value in clean.items()
        if name not in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    }


@contextmanager
def up(tmp_path: Path, env: Mapping[str, str], *flags: str) -> Iterator[Terminal]:
    """At its first prompt."""
    with at_terminal("up", *flags, cwd=tmp_path, env=env) as terminal:
        terminal.expect(" $ ")
        yield terminal


def fact(terminal: Terminal, name: str) -> str:
    found = re.search(rf"^  {name} +(.+?)(?:  .*)?\r?$", terminal.seen, re.MULTILINE)
    assert found is not None, terminal.seen
    return found[1]


def run(terminal: Terminal, command: str) -> str:
    terminal.type(f"{command}\r")
    terminal.expect("\r\n")
    return terminal.expect(" $ ")


# Without VS Code ----------------------------------------------------------------------------


def test_without_vs_code_it_says_how_to_get_it_and_goes_on(
    tmp_path: Path, env: Mapping[str, str]
) -> None:
    nothing = {**env, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with up(tmp_path, nothing) as terminal:
        assert "`bascule install vscode`" in fact(terminal, "VS Code")
        assert "pair" in terminal.seen
        assert "demo" not in terminal.seen
        assert run(terminal, "echo go''ing on").startswith("going on")


def test_other_commands_find_its_hub_by_themselves_until_it_ends(
    tmp_path: Path, env: Mapping[str, str]
) -> None:
    nothing = {**env, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with up(tmp_path, nothing) as terminal:
        during = bascule("windows", "--json", env=nothing)
        terminal.type("exit\r")
        assert terminal.status() == 0
    after = bascule("windows", env=nothing)

    assert json.loads(during.stdout) == []
    assert after.returncode == 1
    assert "`bascule up` starts one" in after.stderr


# With VS Code -------------------------------------------------------------------------------


@pytest.mark.editor
@pytest.mark.usefixtures("vscode")
def test_a_browser_that_is_named_is_opened_at_the_address(
    tmp_path: Path, env: Mapping[str, str]
) -> None:
    opened = tmp_path / "opened"
    os.mkfifo(opened)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >{opened}\n')
    browser.chmod(0o755)
    with up(tmp_path, {**env, "BROWSER": str(browser)}) as terminal:
        assert opened.read_text().strip() == fact(terminal, "VS Code")
        assert "opened in your browser" in terminal.seen


@pytest.mark.editor
@pytest.mark.usefixtures("vscode")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_however_it_ends_nothing_is_left(
    tmp_path: Path, env: Mapping[str, str], number: int
) -> None:
    with up(tmp_path, env, "--no-browser") as terminal:
        below = psutil.Process(terminal.pid).children(recursive=True)
        servers = [each.pid for each in below if "code-server" in " ".join(each.cmdline())]
        token = Path(_machine_settings(tmp_path)["bascule.tokenFile"])
        assert servers
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        os.kill(terminal.pid, number)

        assert all(ended(each.pid) for each in below)
    assert not token.parent.exists()


@pytest.mark.editor
@pytest.mark.usefixtures("vscode")
async def test_the_demo_plays_in_the_window_once_its_user_allows_it(
    tmp_path: Path, env: Mapping[str, str], page: Page
) -> None:
    with up(tmp_path, env) as terminal:
        await page.goto(fact(terminal, "VS Code"))
        with at_terminal("demo", "--fast", cwd=tmp_path, env=env) as demo:
            await page.get_by_role("button", name="Allow in This Workspace").click(timeout=90_000)
            assert demo.status() == 0

        assert "Demo agent" in demo.seen
        assert "total        14.70" in demo.seen
        assert (tmp_path / "workspace/bascule-demo/bill.py").exists()
        listed = json.loads(bascule("windows", "--json", env=env).stdout)
        assert [each["workspace_path"] for each in listed] == [str(tmp_path / "workspace")]
        assert listed[0]["status"] == "healthy"


@pytest.mark.editor
@pytest.mark.usefixtures("vscode")
async def test_a_demo_that_is_refused_does_nothing(
    tmp_path: Path, env: Mapping[str, str], page: Page
) -> None:
    with up(tmp_path, env) as terminal:
        await page.goto(fact(terminal, "VS Code"))
        with at_terminal("demo", "--fast", cwd=tmp_path, env=env) as demo:
            await page.get_by_role("button", name="Deny").click(timeout=90_000)
            assert demo.status() == 1

    assert "the user said no" in demo.seen
    assert not (tmp_path / "workspace/bascule-demo").exists()


@pytest.mark.editor
@pytest.mark.usefixtures("vscode")
async def test_a_folder_that_others_filled_is_not_trusted_unasked(
    tmp_path: Path, env: Mapping[str, str], page: Page
) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/file").touch()
    with up(tmp_path, env, "--working-dir", "theirs") as terminal:
        await page.goto(fact(terminal, "VS Code"))
        await page.get_by_text("Restricted Mode").first.wait_for(timeout=90_000)
        assert "trust the folder there" in terminal.seen


def _machine_settings(tmp_path: Path) -> dict[str, str]:
    [file] = (tmp_path / "state/bascule/vscode").glob("*/Machine/settings.json")
    found: dict[str, str] = json.loads(file.read_text())
    return found
