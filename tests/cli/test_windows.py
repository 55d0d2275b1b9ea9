"""`bascule windows` and `bascule pair`, with a hub and windows of ours."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page

from bascule.runtime.vscode import VSCodeRuntime
from bascule.sandbox.vscode.installation import Installation
from bascule.sandbox.vscode.server import VSCodeServer, VSCodeSettings
from tests.hub.serving import ADMIN, Client, RunningHub

from .processes import BASCULE, environment

pytestmark = pytest.mark.slow


@pytest.fixture
async def hub() -> AsyncIterator[RunningHub]:
    async with RunningHub() as place:
        yield place


def client_environment(hub: RunningHub, state: Path, token: str = ADMIN) -> Mapping[str, str]:
    return environment(BASCULE_HUB=hub.url, BASCULE_TOKEN=token, XDG_STATE_HOME=str(state))


async def start(*arguments: str, env: Mapping[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *BASCULE,
        *arguments,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def output(*arguments: str, env: Mapping[str, str]) -> tuple[int | None, str, str]:
    process = await start(*arguments, env=env)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_windows_are_listed_one_per_line(hub: RunningHub, tmp_path: Path) -> None:
    async with hub.fake_window(tmp_path, name="mine"):
        status, table, _ = await output("windows", env=client_environment(hub, tmp_path))
        _, as_json, _ = await output("windows", "--json", env=client_environment(hub, tmp_path))

    heading, line = table.splitlines()
    [window] = json.loads(as_json)
    assert status == 0
    assert heading.split()[:4] == ["ID", "STATUS", "NAME", "FOLDERS"]
    assert line.split()[:4] == [window["connection_id"], "healthy", "mine", str(tmp_path)]
    assert window["workspace_path"] == str(tmp_path)


async def test_an_agent_may_list_but_not_pair(hub: RunningHub, tmp_path: Path) -> None:
    env = client_environment(hub, tmp_path, hub.agent)

    listed, text, _ = await output("windows", env=env)
    paired, _, complaint = await output("pair", env=env)

    assert (listed, paired) == (0, 2)
    assert "No window is connected. `bascule session url --sign-in NAME`" in text
    assert "needs a token of scope admin" in complaint


async def test_a_demo_in_an_unknown_window_lists_the_connected_ones(
    hub: RunningHub, tmp_path: Path
) -> None:
    async with hub.fake_window(tmp_path, name="mine"):
        env = client_environment(hub, tmp_path)
        status, _, complaint = await output("demo", "--window", "nosuch", env=env)

    assert status == 2
    assert "No window matches 'nosuch'; connected windows: mine (" in complaint


async def test_a_demo_without_a_window_prints_a_url_and_stops_waiting(
    hub: RunningHub, tmp_path: Path
) -> None:
    env = client_environment(hub, tmp_path)

    status, told, complaint = await output("demo", "--timeout", "1", env=env)

    assert status == 2
    assert "no VS Code window connected within 1 seconds" in complaint
    address = re.search(rf"{hub.url}/sign-in\?code=\S+", told)
    assert address is not None, told
    async with httpx.AsyncClient() as browser:
        onward = re.search(r"url=http://([^/]+)/", (await browser.get(address[0])).text)
        assert onward is not None, "the page is at a name of the hub's own"
        signed_in = await browser.get(address[0], headers={"Host": onward[1]})
        assert "set-cookie" in signed_in.headers


async def test_an_address_without_a_scheme_is_http(hub: RunningHub, tmp_path: Path) -> None:
    plain = hub.url.removeprefix("http://")

    assert (await output("windows", "--hub", plain, env=client_environment(hub, tmp_path)))[0] == 0


async def test_without_a_token_the_error_names_bascule_token(tmp_path: Path) -> None:
    env = environment(XDG_STATE_HOME=str(tmp_path))

    status, _, complaint = await output("windows", env=env)

    assert status == 2
    assert "BASCULE_TOKEN" in complaint


async def test_an_unreachable_hub_is_reported_with_how_to_start_one(
    hub: RunningHub, tmp_path: Path
) -> None:
    await hub.stop()

    for command in ("windows", "pair", "demo"):
        status, _, complaint = await output(command, env=client_environment(hub, tmp_path))
        assert status == 1
        assert f"no hub answers at {hub.url}; start one with `bascule up`" in complaint


async def code_of(pairing: asyncio.subprocess.Process) -> str:
    """The code it shows, once it has shown the link too."""
    assert pairing.stdout is not None
    shown = ""
    while not (link := re.search(r"vscode://\S+code=(\w+)", shown)):
        shown += (await pairing.stdout.readline()).decode()
    code = re.search(r"code +(\w{4}-\w{4}) ", shown)
    assert code is not None
    assert code[1].replace("-", "") == link[1]
    return code[1]


async def test_pairing_shows_a_code_and_ends_when_the_window_is_there(
    hub: RunningHub, tmp_path: Path
) -> None:
    async with hub.fake_window(tmp_path, name="there already"):
        pairing = await start("pair", env=client_environment(hub, tmp_path))
        code = await code_of(pairing)
        async with Client(hub.url, token="") as window:
            status, given = await window.ask("POST", f"/api/vscode/pair/{code}")
        assert status == 200
        async with hub.fake_window(tmp_path, token=given["token"], name="new"):
            out, _ = await pairing.communicate()

    assert pairing.returncode == 0
    assert "new is connected" in out.decode()


async def test_pair_with_no_wait_prints_the_code_and_exits(hub: RunningHub, tmp_path: Path) -> None:
    status, shown, _ = await output("pair", "--no-wait", env=client_environment(hub, tmp_path))

    assert status == 0
    assert f"hub   {hub.url}" in shown


@pytest.mark.editor
async def test_a_real_window_can_pair_with_the_code(
    hub: RunningHub, vscode: tuple[Installation, Path], page: Page, tmp_path: Path
) -> None:
    installation, extension = vscode
    settings = VSCodeSettings(
        data=tmp_path / "data",
        extension=extension,
        user={"security.workspace.trust.enabled": False},
        environment={"PATH": os.environ["PATH"]},
    )
    async with VSCodeServer(installation, settings) as server:
        await page.goto(server.address(tmp_path))
        # Its item is there once the extension runs; before, the palette does not know its commands.
        await page.locator(".statusbar").get_by_text("Bascule").first.wait_for(timeout=90_000)
        pairing = await start("pair", env=client_environment(hub, tmp_path))
        code = await code_of(pairing)
        typed = page.locator(".quick-input-widget input[type=text]")
        await page.keyboard.press("F1")
        await typed.fill(">Bascule: Connect to a Hub")
        await page.locator(".quick-input-list").get_by_text("Connect to a Hub").first.click()
        for prompt, answer in (("Address of the hub", hub.url), ("Pairing code", code)):
            await page.get_by_text(prompt).wait_for(timeout=30_000)
            await typed.fill(answer)
            await page.keyboard.press("Enter")
        out, _ = await pairing.communicate()

    assert f"{tmp_path.name} is connected" in out.decode()


async def test_checkpoints_of_a_window_are_listed_and_restored(
    hub: RunningHub, tmp_path: Path
) -> None:
    folder, env = tmp_path / "folder", client_environment(hub, tmp_path)
    folder.mkdir()
    (folder / "lost.txt").write_text("one\n")
    async with hub.fake_window(folder, name="mine", checkpoints=tmp_path / "store") as window:
        async with VSCodeRuntime(hub.url, hub.agent, window=window.id) as agent:
            await agent.run("rm lost.txt")
        _, listed, _ = await output("checkpoint", "list", "--window", "mine", env=env)
        _, shown, _ = await output("checkpoint", "show", "1", "--window", str(folder), env=env)
        status, said, note = await output(
            *("checkpoint", "restore", "1", "--window", "mine"), env=env
        )
        twice, _, error = await output(
            *("checkpoint", "list", "--window", "mine", "--session", "x"), env=env
        )

    assert listed.endswith("1 file\n")
    assert "  D lost.txt\n" in shown
    assert (status, said) == (0, "restored lost.txt\n")
    assert "To undo: bascule checkpoint restore 2 --window mine" in note
    assert (folder / "lost.txt").read_text() == "one\n"
    assert twice == 2
    assert "--window" in error
