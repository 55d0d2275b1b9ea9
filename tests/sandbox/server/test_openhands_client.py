"""The action server asked as OpenHands' client asks: with httpx, from a thread, one at a time."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from bascule.sandbox.server.server import SandboxServer
from tests.sandbox.serving import KEY, serving

_Answer = TypeVar("_Answer")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SandboxServer]:
    async with serving(tmp_path) as server:
        yield server


async def ask(server: SandboxServer, questions: Callable[[httpx.Client], _Answer]) -> _Answer:
    def talk() -> _Answer:
        headers = {"X-Session-API-Key": KEY}
        with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as client:
            return questions(client)

    return await asyncio.to_thread(talk)


def act(client: httpx.Client, kind: str, **args: Any) -> dict[str, Any]:
    event = {"action": kind, "args": args, "timeout": 120}
    reply = client.post("/execute_action", json={"action": event}, timeout=125)
    reply.raise_for_status()
    answer: dict[str, Any] = reply.json()
    return answer


async def test_an_openhands_runtime_session_works(server: SandboxServer, tmp_path: Path) -> None:
    def session(client: httpx.Client) -> None:
        assert client.get("/alive", timeout=5).status_code == 200
        exported = act(client, "run", command='export WORD="kept"; export OTHER="1"')
        assert exported["extras"]["metadata"]["exit_code"] == 0
        assert act(client, "run", command="echo $WORD")["content"] == "kept\n"
        static = act(client, "run", command="pwd", is_static=True, hidden=True, cwd="/")
        assert (static["content"], static["extras"]["hidden"]) == ("/\n", True)
        written = act(client, "write", path="note.txt", content="one\ntwo\n")
        assert (written["observation"], written["extras"]) == (
            "write",
            {"path": f"{tmp_path}/note.txt"},
        )
        read = act(client, "read", path="note.txt")
        assert read["extras"] == {"path": f"{tmp_path}/note.txt", "impl_source": "default"}
        edited = act(
            client,
            "edit",
            path=f"{tmp_path}/note.txt",
            command="str_replace",
            old_str="one",
            new_str="1",
        )
        assert set(edited["extras"]) == {
            *("path", "prev_exist", "old_content", "new_content", "impl_source", "diff"),
            "_diff_cache",
        }
        failed = act(
            client, "edit", path=f"{tmp_path}/note.txt", command="str_replace", old_str="absent"
        )
        assert failed["observation"] == "edit"
        assert failed["content"].startswith("ERROR:\n")
        missing = act(client, "read", path="missing")
        assert (missing["observation"], set(missing["extras"])) == ("error", {"error_id"})

    await ask(server, session)


async def test_files_are_transferred_as_the_openhands_client_does(
    server: SandboxServer, tmp_path: Path
) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("tree/inner/note", "text")  # names start at the parent of what is copied

    def transfer(client: httpx.Client) -> None:
        to = {"destination": f"{tmp_path}/up", "recursive": "false"}
        files = {"file": ("data.bin", b"\0" * 3_000_000)}
        client.post("/upload_file", files=files, params=to, timeout=300).raise_for_status()
        to["recursive"] = "true"
        files = {"file": ("tree.zip", held.getvalue())}
        client.post("/upload_file", files=files, params=to, timeout=300).raise_for_status()
        listed = client.post("/list_files", json={"path": f"{tmp_path}/up"}, timeout=10).json()
        assert listed == ["tree/", "data.bin"]
        path = {"path": f"{tmp_path}/up/tree"}
        with client.stream("GET", "/download_files", params=path, timeout=30) as reply:
            data = io.BytesIO(b"".join(reply.iter_bytes()))
        with zipfile.ZipFile(data) as archive:
            assert archive.namelist() == ["inner/", "inner/note"]

    await ask(server, transfer)
    assert (tmp_path / "up/data.bin").stat().st_size == 3_000_000


async def test_a_wrong_key_is_403_with_detail(server: SandboxServer) -> None:
    def intrude(client: httpx.Client) -> httpx.Response:
        headers = {"X-Session-API-Key": "wrong"}
        return client.post("/execute_action", json={}, headers=headers)

    reply = await ask(server, intrude)
    assert reply.status_code == 403
    assert isinstance(reply.json()["detail"], str)
