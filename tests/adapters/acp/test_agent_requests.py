"""The agent's requests: every one gets exactly one answer, also when it is cancelled or refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bascule.adapters.acp.agent_requests import MAX_RUNNING, AgentRequests, SessionPaths
from bascule.adapters.acp.messages import decode
from bascule.adapters.acp.workspaces import SessionWorkspace, WindowWorkspace
from bascule.core.windows import Folder, Window, WindowId
from bascule.runtime import LocalRuntime


class Place:
    """Requests whose work is given by the test, and their answers."""

    def __init__(self, directory: Path) -> None:
        runtime = LocalRuntime(directory)
        self.answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        workspace = SessionWorkspace(runtime, runtime)
        self.requests = AgentRequests(
            workspace, lambda line: self.answers.put_nowait(json.loads(line))
        )

    async def answer(self) -> dict[str, Any]:
        async with asyncio.timeout(60):
            return await self.answers.get()


async def endless() -> Mapping[str, Any]:
    await asyncio.Event().wait()
    return {}


async def broken() -> Mapping[str, Any]:
    raise KeyError("key")


async def test_a_request_that_is_cancelled_at_once_gets_an_answer(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.requests.run(1, endless())
    assert place.requests.cancel(1)  # before the first step of the work
    answer = await place.answer()
    assert (answer["id"], answer["error"]["code"]) == (1, -32800)
    await place.requests.aclose()
    assert place.answers.empty()


async def test_refused_requests_are_answered_and_the_others_go_on(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for number in range(MAX_RUNNING):
        place.requests.run(number, endless())
    place.requests.run(3, endless())  # warnings about work that never runs are errors
    place.requests.run("one more", endless())
    assert "pending request" in (await place.answer())["error"]["message"]
    assert "the maximum" in (await place.answer())["error"]["message"]
    await place.requests.aclose()
    cancelled = [await place.answer() for _ in range(MAX_RUNNING)]
    assert {each["id"] for each in cancelled} == set(range(MAX_RUNNING))
    assert {each["error"]["code"] for each in cancelled} == {-32800}


async def test_an_internal_error_is_logged_and_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(tmp_path)
    place.requests.run("a", broken())
    answer = await place.answer()
    assert (answer["id"], answer["error"]["code"]) == ("a", -32603)
    assert "KeyError" in caplog.text
    await place.requests.aclose()


@pytest.mark.slow
async def test_sessions_in_two_folders_of_a_window_each_read_their_own(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for each in folders:
        each.mkdir()
        (each / "file").write_text(each.name)
    window = Window(
        id=WindowId("w"), name="w", folders=[Folder(each.name, str(each)) for each in folders]
    )
    answers: asyncio.Queue[bytes] = asyncio.Queue()
    async with LocalRuntime(tmp_path) as runtime:
        workspace = WindowWorkspace(window, runtime, runtime, mcp_server={})
        requests = AgentRequests(workspace, answers.put_nowait)
        first, second = (SessionPaths(workspace, str(each)) for each in folders)
        for number, (paths, folder) in enumerate(
            ((second, "two"), (first, "one"), (second, "two"), (first, "two"))
        ):
            params = {"sessionId": "s", "path": str(tmp_path / folder / "file")}
            method = "fs/read_text_file"
            body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            requests.start(decode(json.dumps(body).encode()), paths)
            async with asyncio.timeout(60):
                answer = json.loads(await answers.get())
            if number < 3:
                assert answer["result"] == {"content": folder}
            else:
                assert answer["error"]["code"] == -32602  # the folder of the other session
        await requests.aclose()
