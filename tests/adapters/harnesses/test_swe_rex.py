"""SWE-ReX's own remote runtime and deployment on a session."""

from __future__ import annotations

import asyncio
import os
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from swerex.deployment.remote import RemoteDeployment
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
    SwerexException,
)
from swerex.runtime.abstract import (
    BashAction,
    BashInterruptAction,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)
from swerex.runtime.remote import RemoteRuntime

from bascule.runtime import CloudRuntime

pytestmark = pytest.mark.asyncio(loop_scope="module")
HUB, TOKEN = os.environ.get("BASCULE_HUB", ""), os.environ.get("BASCULE_TOKEN", "")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session() -> AsyncIterator[str]:
    async with CloudRuntime(HUB, TOKEN, session={"name": "swe-rex"}, remove=True) as runtime:
        yield runtime.session_id


@pytest_asyncio.fixture(loop_scope="module")
async def runtime(session: str) -> AsyncIterator[RemoteRuntime]:
    deployment = RemoteDeployment(auth_token=TOKEN, host=f"{HUB}/swerex/{session}", timeout=60)
    await deployment.start()
    assert await deployment.is_alive()
    yield deployment.runtime
    await deployment.stop()


async def run(runtime: RemoteRuntime, command: str, **keywords: object) -> tuple[str, int | None]:
    seen = await runtime.run_in_session(BashAction(command=command, **keywords))  # type: ignore[arg-type]
    return seen.output, seen.exit_code


async def test_a_shell_keeps_its_state_until_it_is_closed(runtime: RemoteRuntime) -> None:
    await runtime.write_file(WriteFileRequest(path="start.sh", content="export SOURCED=yes\n"))
    created = await runtime.create_session(
        CreateBashSessionRequest(startup_source=["start.sh"], startup_timeout=60)
    )
    assert created.output == ""
    with pytest.raises(SessionExistsError):
        await runtime.create_session(CreateBashSessionRequest())
    assert await run(runtime, "cd /tmp; word=kept; echo $SOURCED") == ("yes\n", 0)
    assert await run(runtime, "pwd; echo $word") == ("/tmp\nkept\n", 0)
    assert await run(runtime, "cat <<EOF\nline\nEOF\necho two") == ("line\ntwo\n", 0)
    await runtime.close_session(CloseBashSessionRequest())
    with pytest.raises(SessionDoesNotExistError):
        await run(runtime, "pwd")
    await runtime.create_session(CreateBashSessionRequest())
    assert await run(runtime, "echo $word") == ("\n", 0)


async def test_the_exit_code_is_checked_as_asked(runtime: RemoteRuntime) -> None:
    await runtime.create_session(CreateBashSessionRequest(session="other"))
    with pytest.raises(NonZeroExitCodeError, match=r"mine: .*exit code 3"):
        await run(runtime, "(exit 3)", session="other", error_msg="mine")
    assert await run(runtime, "(exit 3)", session="other", check="silent") == ("", 3)
    assert await run(runtime, "(exit 3)", session="other", check="ignore") == ("", None)
    with pytest.raises(BashIncorrectSyntaxError):
        await run(runtime, "echo (", session="other")
    with pytest.raises(SwerexException, match="does not support"):
        await run(runtime, "gdb", session="other", is_interactive_command=True)


async def test_a_late_command_is_interrupted(runtime: RemoteRuntime) -> None:
    await runtime.create_session(CreateBashSessionRequest())
    with pytest.raises(CommandTimeoutError, match="timeout after 1"):
        await run(runtime, "echo begun; sleep 1000", timeout=1)
    with pytest.raises(SwerexException, match="still runs"):
        await run(runtime, "echo second")
    interrupted = await runtime.run_in_session(BashInterruptAction(timeout=20))
    assert interrupted.exit_code == 0
    assert await run(runtime, "echo third") == ("third\n", 0)


async def test_commands_run_as_with_subprocess(runtime: RemoteRuntime) -> None:
    script = "echo $WORD; echo err >&2; pwd"
    seen = await runtime.execute(
        Command(command=script, shell=True, env={"WORD": "w"}, cwd="/tmp", timeout=60)
    )
    assert (seen.stdout, seen.stderr, seen.exit_code) == ("w\n/tmp\n", "err\n", 0)
    merged = await runtime.execute(
        Command(command=["sh", "-c", "echo a; echo b >&2; echo c"], merge_output_streams=True)
    )
    assert (merged.stdout, merged.stderr) == ("a\nb\nc\n", "")
    with pytest.raises(NonZeroExitCodeError, match="exit code 4"):
        await runtime.execute(Command(command="exit 4", shell=True, check=True))
    with pytest.raises(CommandTimeoutError):
        await runtime.execute(Command(command=["sleep", "1000"], timeout=0.5))
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        await runtime.execute(Command(command=["no-such-program"]))


async def test_files_are_written_read_and_uploaded(runtime: RemoteRuntime, tmp_path: Path) -> None:
    await runtime.write_file(WriteFileRequest(path="deep/er/file", content="öl\r\n"))
    read = await runtime.read_file(ReadFileRequest(path="deep/er/file"))
    assert read.content == "öl\r\n"
    latin = ReadFileRequest(path="deep/er/file", encoding="latin-1")
    assert (await runtime.read_file(latin)).content == "Ã¶l\r\n"
    with pytest.raises(FileNotFoundError, match="missing"):
        await runtime.read_file(ReadFileRequest(path="missing"))
    with pytest.raises(IsADirectoryError):
        await runtime.read_file(ReadFileRequest(path="deep"))
    with pytest.raises(ValueError, match="ascii"):
        await runtime.read_file(ReadFileRequest(path="deep/er/file", encoding="ascii"))
    (tmp_path / "folder/inner").mkdir(parents=True)
    (tmp_path / "folder/inner/data").write_bytes(bytes(range(256)) * 5000)
    await runtime.upload(UploadRequest(source_path=str(tmp_path / "folder"), target_path="/tmp/up"))
    data = str(tmp_path / "folder/inner/data")
    await runtime.upload(UploadRequest(source_path=data, target_path="/tmp/up/copy"))
    seen = await runtime.execute(Command(command=["cmp", "/tmp/up/inner/data", "/tmp/up/copy"]))
    assert (seen.exit_code, seen.stdout) == (0, "")


async def test_a_repeated_request_runs_once(session: str) -> None:
    body = {"command": "date +%N; echo x >>times; cat times", "shell": True}
    headers = {"X-API-Key": TOKEN, "X-Request-ID": "the same"}
    url = f"{HUB}/swerex/{session}/execute"
    async with aiohttp.ClientSession(headers=headers) as http:

        async def post() -> object:
            async with http.post(url, json=body) as answer:
                return await answer.json()

        first, second = await asyncio.gather(post(), post())
        assert first == second == await post()


async def test_other_callers_and_bad_requests_get_errors(session: str, tmp_path: Path) -> None:
    refused: list[tuple[str, str, dict[str, object], int]] = [
        ("", "/execute", {"json": {"command": "id"}}, 401),
        ("wrong", "/is_alive", {}, 401),
        (TOKEN, "/nothing", {"json": {}}, 404),
        (TOKEN, "/execute", {"json": {"command": []}}, 422),
        (TOKEN, "/execute", {"data": b"{"}, 422),
        (TOKEN, "/run_in_session", {"json": {"action_type": "x"}}, 422),
        (TOKEN, "/write_file", {"json": {"path": 1}}, 422),
        (TOKEN, "/upload", {"json": {}}, 415),
        (TOKEN, "/upload", {"data": {"file": b"x"}}, 511),
    ]
    async with aiohttp.ClientSession() as http:
        for token, path, keywords, status in refused:
            headers = {"X-API-Key": token} if token else {}
            if isinstance(keywords.get("data"), bytes):
                headers["Content-Type"] = "application/json"
            url = f"{HUB}/swerex/{session}{path}"
            method = "GET" if path == "/is_alive" else "POST"
            async with http.request(method, url, headers=headers, **keywords) as answer:  # type: ignore[arg-type]
                assert answer.status == status, (path, await answer.text())
        nobody = f"{HUB}/swerex/{'a' * 25}/is_alive"
        async with http.get(nobody, headers={"X-API-Key": TOKEN}) as answer:
            assert answer.status == 404
    evil = tmp_path / "evil.zip"
    with zipfile.ZipFile(evil, "w") as archive:
        archive.writestr("../../escaped", "x")
    form = aiohttp.FormData()
    form.add_field("file", evil.read_bytes(), filename="evil.zip")
    form.add_field("target_path", "/tmp/evil")
    form.add_field("unzip", "true")
    async with (
        aiohttp.ClientSession(headers={"X-API-Key": TOKEN}) as http,
        http.post(f"{HUB}/swerex/{session}/upload", data=form) as answer,
    ):
        assert answer.status == 511
        assert "would leave the destination" in await answer.text()
