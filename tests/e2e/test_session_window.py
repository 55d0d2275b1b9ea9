"""A session whose actions are done in its own VS Code window, whoever looks and whatever ends."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import struct
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import expect

from bascule.core.sessions import SessionId
from bascule.core.view_events import ListPorts, OpenPorts, Screenshot, TakeScreenshot
from bascule.runtime import CloudRuntime
from bascule.sandbox.session.processes import command

from .driving import run_command
from .session_ground import CAN_ISOLATE, SessionGround, session_ground

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not CAN_ISOLATE, reason="needs root and bubblewrap"),
    pytest.mark.timeout(300),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ground() -> AsyncIterator[SessionGround]:
    async with session_ground() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def nobody_looks_afterwards(ground: SessionGround) -> AsyncIterator[None]:
    yield
    await ground.close_pages()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session_id(ground: SessionGround) -> str:
    stages: list[str] = []
    runtime = CloudRuntime(
        ground.hub.url, ground.hub.agent, session={"runtime": "vscode"}, on_stage=stages.append
    )
    async with runtime:
        assert "opening its window" in stages
        return runtime.session_id


async def shell_of(ground: SessionGround, session_id: str) -> str:
    """Whose child a shell of the session is: VS Code's extension host, or not."""
    said = await ground.asker.run(session_id, "tr '\\0' ' ' < /proc/$PPID/cmdline")
    return "window" if "extensionHost" in said else said


async def test_actions_of_a_session_run_in_its_window_whichever_client_sends_them(
    ground: SessionGround, session_id: str
) -> None:
    assert await shell_of(ground, session_id) == "window"
    async with CloudRuntime(ground.hub.url, ground.hub.agent, session_id=session_id) as runtime:
        assert "open_file" in runtime.capabilities
        await runtime.write("made.txt", "by the window\n")
        assert (await runtime.run("cat made.txt")).content == "by the window\n"
        source = ground.hub.settings.state_dir / "given.txt"  # type: ignore[operator]
        source.write_text("by the sandbox\n")
        await runtime.upload(source, "/workspace")
        assert (await runtime.read("given.txt")).content == "by the sandbox\n"
    assert ground.file(session_id, "made.txt").read_text() == "by the window\n"


async def test_changes_made_in_the_window_are_recorded_in_the_sessions_checkpoints(
    ground: SessionGround, session_id: str
) -> None:
    async with CloudRuntime(ground.hub.url, ground.hub.agent, session_id=session_id) as runtime:
        await runtime.write("kept.txt", "one\n")
        await runtime.run("rm kept.txt")
        last = (await runtime.checkpoints()).items[-1]
        assert last["title"] == "run rm kept.txt"
        assert (await runtime.restore(last["id"])).restored == ("kept.txt",)
        assert (await runtime.read("kept.txt")).content == "one\n"


async def test_the_sessions_window_is_photographed_and_knows_its_ports(
    ground: SessionGround, session_id: str
) -> None:
    async with CloudRuntime(ground.hub.url, ground.hub.agent, session_id=session_id) as runtime:
        assert "screenshot" in runtime.capabilities
        seen = await runtime.act(TakeScreenshot())
        assert isinstance(seen, Screenshot), seen
        picture = base64.b64decode(seen.image_url.removeprefix("data:image/png;base64,"))
        assert picture.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", picture[16:24])
        assert (width, height > 600) == (1400, True)
        await runtime.run(
            "python3 -u -m http.server 8123 >served 2>&1 & until [ -s served ]; do sleep 0.1; done",
            timeout=60,
        )
        async with asyncio.timeout(60):
            while True:
                listed = await runtime.act(ListPorts())
                assert isinstance(listed, OpenPorts), listed
                found = [item for item in listed.items if item["port"] == 8123]
                if found:
                    break
        assert "http.server" in found[0]["command"]
        assert found[0]["url_path"].startswith(f"/apps/{session_id}-")
        await runtime.run("kill %1")


async def test_a_user_can_open_the_session_window_watch_and_leave(
    ground: SessionGround, session_id: str
) -> None:
    alone = await ground.host(session_id)
    async with CloudRuntime(ground.hub.url, ground.hub.agent, session_id=session_id) as runtime:
        await runtime.run("cd /tmp; word=kept; mkfifo /workspace/gate")
        asked = runtime.run("read answer < /workspace/gate; echo $answer", blocking=True)
        waiting = asyncio.create_task(asked)
        page = await ground.open(session_id)
        await ground.host(session_id, after=alone)
        # What runs is typed into where it runs; what comes then is done before the person's eyes.
        await runtime.run("echo through > /workspace/gate", shell="other")
        assert (await waiting).content == "through\n"
        await runtime.run("echo for your eyes")
        await expect(page.locator(".terminal.xterm")).to_be_visible()
        await runtime.write("/workspace/shown.txt", "see\n")
        await expect(page.get_by_text("shown.txt").first).to_be_visible()
        await ground.close_pages()
        await ground.host(session_id, is_it=alone)
        assert (await runtime.run("pwd; echo $word")).content == "/tmp\nkept\n"


async def test_a_merge_is_reviewed_by_hunk_as_changes_of_the_fork(ground: SessionGround) -> None:
    asker = ground.asker
    home = await asker.ready({"name": "home"})
    await asker.run(home, "printf 'one\\ntwo\\nthree\\nfour\\n' > merged.txt; echo gone > gone.txt")
    (fork,) = await asker.must("POST", f"/api/sessions/{home}/forks")
    await asker.reaches(fork["id"], "ready")
    await asker.run(
        fork["id"], "sed -i 's/one/ONE/; s/four/FOUR/' merged.txt; rm gone.txt; echo new > new.txt"
    )
    page = await ground.open(home)
    await ground.host(home)
    ground.file(home, "merged.txt").write_text("one\ntwo\nmine\nthree\nfour\n")
    done = await asker.must("POST", f"/api/sessions/{fork['id']}/merge")
    assert [each["outcome"] for each in done["results"]] == ["taken", "merged", "taken"]

    await run_command(page, "Source Control: Focus on Changes View")
    scm = page.locator(".scm-view")
    await expect(scm.locator(".resource-group")).to_have_count(1)
    await expect(scm.locator(".resource-group")).to_contain_text("fork home-fork-1")
    rows = scm.locator(".monaco-list-row .resource")
    await expect(rows).to_have_count(3)
    await rows.filter(has_text="merged.txt").click()
    lens = page.locator(".codelens-decoration a")
    await expect(lens.filter(has_text="Keep")).to_have_count(2)  # not the line of the person
    await lens.filter(has_text="Undo").first.click()
    await expect(lens.filter(has_text="Keep")).to_have_count(1)
    # The editor saves the file after it has drawn the change.
    saved = "until grep -q one merged.txt; do sleep 0.05; done; cat merged.txt"
    assert await asker.run(home, saved) == "one\ntwo\nmine\nthree\nFOUR\n"


async def test_a_reload_and_a_killed_vscode_lose_no_action(
    ground: SessionGround, session_id: str
) -> None:
    number = await ground.host(session_id)
    page = await ground.open(session_id)
    number = await ground.host(session_id, after=number)
    await page.reload()
    number = await ground.host(session_id, after=number)
    assert await shell_of(ground, session_id) == "window"
    await ground.close_pages()

    await asyncio.to_thread(kill_code_server, ground, session_id)
    await ground.host(session_id, after=number)
    assert await shell_of(ground, session_id) == "window"


def kill_code_server(ground: SessionGround, session_id: str) -> None:
    """The processes of this session's own user that are VS Code's server."""
    uid = ground.hub.hub.sessions._lifecycle.running[SessionId(session_id)].uid
    found = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]
    servers = [pid for pid in found if _owner(pid) == uid and "out/node/entry" in command(pid)]
    assert servers
    for pid in servers:
        with suppress(ProcessLookupError):  # the first one's end may have been the others'
            os.kill(pid, signal.SIGKILL)


def _owner(pid: int) -> int:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return -1


async def test_a_session_window_continues_after_a_pause_and_a_hub_restart(
    ground: SessionGround, session_id: str
) -> None:
    await ground.asker.run(session_id, "word=kept")
    await ground.asker.must("POST", f"/api/sessions/{session_id}/pause")
    assert await ground.asker.run(session_id, "echo $word") == "kept\n"
    assert (await ground.asker.show(session_id))["state"] == "ready"

    await ground.hub.stop()
    await ground.hub.start()
    assert await ground.asker.run(session_id, "echo $word") == "kept\n"
    assert await shell_of(ground, session_id) == "window"
