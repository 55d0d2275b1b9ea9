"""A session's sandbox is told how to start on standard input and answers on a unix socket."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bascule.core.errors import InvalidSetting, SandboxUnreachable
from bascule.core.observations import CmdOutput
from bascule.runtime.remote import RemoteRuntime
from bascule.sandbox.session.launch import SandboxLaunch

KEY = "a-key-of-the-test"


def launch(directory: Path) -> SandboxLaunch:
    return SandboxLaunch(
        key=KEY,
        working_dir=str(directory),
        run_dir=str(directory),
        state_dir=str(directory / "state"),
        environment={"PATH": "/usr/bin:/bin", "GREETING": "hello"},
    )


def test_a_launch_survives_json_serialization(tmp_path: Path) -> None:
    assert SandboxLaunch.from_json(launch(tmp_path).to_json()) == launch(tmp_path)


def test_the_file_layout_keeps_its_name_on_the_wire(tmp_path: Path) -> None:
    """Sandboxes in images of earlier versions read the old name."""
    given = replace(launch(tmp_path), file_layout="openhands")
    line = given.to_json()
    assert json.loads(line)["likeness"] == "openhands"
    assert SandboxLaunch.from_json(line) == given


def test_unknown_fields_of_a_newer_spawner_are_ignored(tmp_path: Path) -> None:
    line = launch(tmp_path).to_json().replace(b"{", b'{"colour": "red", ', 1)
    assert SandboxLaunch.from_json(line) == launch(tmp_path)


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"nonsense"])
def test_invalid_launch_parameters_are_reported_to_the_spawner(line: bytes) -> None:
    with pytest.raises(InvalidSetting, match="launch parameters"):
        SandboxLaunch.from_json(line)


@pytest.mark.slow
async def test_a_sandbox_answers_on_its_socket_until_it_is_stopped(tmp_path: Path) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bascule.sandbox.session"), stdin=pipe, stdout=pipe
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(launch(tmp_path).to_json())
        process.stdin.close()
        assert await process.stdout.readline() == b"answers on sandbox.sock\n"
        path = tmp_path / "sandbox.sock"
        async with RemoteRuntime("http://localhost", KEY, socket_path=path) as runtime:
            seen = await runtime.run("echo $GREETING; pwd")
    finally:
        process.terminate()
        status = await process.wait()
    assert isinstance(seen, CmdOutput)
    assert seen.content.split() == ["hello", str(tmp_path)]
    assert status == 0


async def test_a_missing_socket_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "none.sock"
    runtime = RemoteRuntime("http://localhost", KEY, socket_path=path, connect_timeout=0.01)
    with pytest.raises(SandboxUnreachable, match=r"none\.sock .*there is no such socket"):
        await runtime.connect()
    await runtime.aclose()
