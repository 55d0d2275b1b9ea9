"""The sandbox's own IPython: who starts it, what it costs those who do not, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bascule.core.actions import Interrupt, IPythonRun
from bascule.core.observations import Error, Interrupted, IPythonOutput
from bascule.runtime import LocalRuntime
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.ipython.settings import IPythonSettings
from bascule.sandbox.settings import SandboxSettings
from tests.contracts.runtime import gone, settings


def with_python(workspace: Path, python: str) -> SandboxSettings:
    return replace(settings(workspace), ipython=IPythonSettings(python=python))


async def made(settings: SandboxSettings) -> Sandbox:
    return await asyncio.to_thread(Sandbox, settings)


async def test_ipython_is_not_imported_or_started_before_the_first_cell(tmp_path: Path) -> None:
    code = (
        "import sys, bascule.sandbox.server.serve, bascule.sandbox.executor\n"
        "heavy = {'zmq', 'jupyter_client', 'IPython', 'bascule.sandbox.ipython.kernel'}\n"
        "assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()"
    )
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], check=True)
    async with await made(settings(tmp_path)) as sandbox:
        seen = await sandbox.act(Interrupt("ipython"))
        assert isinstance(seen, Interrupted)
        assert not seen.was_running
        assert sandbox.kernel._worker is None


@pytest.mark.slow
async def test_a_python_without_ipykernel_says_what_to_install(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    argv = [sys.executable, "-m", "venv", "--without-pip", str(bare)]
    await asyncio.to_thread(subprocess.run, argv, check=True)
    async with await made(with_python(tmp_path, str(bare / "bin/python"))) as sandbox:
        seen = await sandbox.act(IPythonRun("1"))
        assert isinstance(seen, Error)
        assert seen.error_id == "machine.missing_tool"
        assert f"{bare}/bin/python -m pip install ipykernel" in seen.content


async def test_a_missing_python_is_reported(tmp_path: Path) -> None:
    async with await made(with_python(tmp_path, "no-such-python")) as sandbox:
        seen = await sandbox.act(IPythonRun("1"))
        assert isinstance(seen, Error)
        assert seen.error_id == "setting.invalid"
        assert "no-such-python" in seen.content


@pytest.mark.slow
async def test_a_python_that_does_not_start_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'no such luck'\nexit 3\n")
    broken.chmod(0o755)
    async with await made(with_python(tmp_path, str(broken))) as sandbox:
        seen = await sandbox.act(IPythonRun("1"))
        assert isinstance(seen, Error)
        assert seen.error_id == "sandbox.start_failed"
        assert "no such luck" in seen.content


@pytest.mark.slow
async def test_the_kernel_uses_the_configured_interpreter(tmp_path: Path) -> None:
    alias = tmp_path / "bin" / "python"
    alias.parent.mkdir()
    alias.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    alias.chmod(0o755)
    async with await made(with_python(tmp_path, str(alias))) as sandbox:
        seen = await sandbox.act(IPythonRun("import sys; print(sys.executable)"))
        assert seen.content.startswith(sys.executable)


@pytest.mark.slow
async def test_a_kernel_with_follow_shell_disabled_keeps_its_directory(tmp_path: Path) -> None:
    still = replace(settings(tmp_path), ipython=IPythonSettings(follow_shell=False))
    async with LocalRuntime(settings=still) as runtime:
        await runtime.run("mkdir inner; cd inner")
        seen = await runtime.run_ipython("import os; print(os.getcwd())")
        assert seen.content == str(tmp_path)


@pytest.mark.slow
async def test_a_directory_that_the_kernel_cannot_enter_is_reported(tmp_path: Path) -> None:
    async with LocalRuntime(tmp_path) as runtime:
        await runtime.run_ipython("1")
        await runtime.run("mkdir gone; cd gone; rmdir ../gone")
        seen = await runtime.run_ipython("'done'")
        assert seen.succeeded
        assert "could not follow the shell: FileNotFoundError" in seen.content


@pytest.mark.slow
async def test_the_kernel_sockets_are_in_a_private_directory(tmp_path: Path) -> None:
    async with await made(settings(tmp_path)) as sandbox:
        await sandbox.act(IPythonRun("1"))
        place = sandbox.shells.log_dir / "ipython"
        assert stat.S_IMODE(place.stat().st_mode) & 0o777 == 0o700
        assert any(stat.S_ISSOCK(entry.stat().st_mode) for entry in place.iterdir())
    assert not place.exists()


@pytest.mark.slow
async def test_the_kernel_does_not_inherit_the_servers_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSION_API_KEY", "hush-hush")
    async with LocalRuntime(tmp_path) as runtime:
        code = (
            "import os\nfrom pathlib import Path\n"
            "print(os.environ, Path(f'/proc/{os.getppid()}/environ').read_bytes())"
        )
        assert "hush-hush" not in (await runtime.run_ipython(code)).content


@pytest.mark.slow
async def test_a_killed_worker_ends_its_kernel_and_is_replaced(
    tmp_path: Path,
) -> None:
    async with LocalRuntime(tmp_path) as runtime:
        pids = (await runtime.run_ipython("import os; print(os.getpid(), os.getppid())")).content
        kernel, worker = map(int, pids.split())
        running = asyncio.create_task(runtime.run_ipython("open('up', 'w'); input()"))
        assert (await running).metadata.state == "input"
        running = asyncio.create_task(runtime.run_ipython("", is_input=True, timeout=60))
        await running
        os.kill(worker, signal.SIGKILL)
        await gone(worker)
        seen = await runtime.run_ipython("'fresh'")
        if seen.metadata.state == "died":
            seen = await runtime.run_ipython("'fresh'")
        assert seen.metadata.new_kernel
        assert "This is a new kernel" in seen.content
    await gone(kernel)


@pytest.mark.slow
async def test_a_cell_running_when_the_worker_is_killed_is_reported_as_died(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "pid")
    async with LocalRuntime(tmp_path) as runtime:
        code = "import os, time\nopen('pid', 'w').write(str(os.getppid()))\ntime.sleep(600)"
        running = asyncio.create_task(runtime.run_ipython(code))
        os.kill(int(await asyncio.to_thread((tmp_path / "pid").read_text)), signal.SIGKILL)
        seen = await running
        assert seen.metadata.state == "died"
        assert "the next cell gets a new kernel" in seen.content


@pytest.mark.slow
async def test_a_server_that_is_killed_leaves_no_kernel(tmp_path: Path) -> None:
    async with LocalRuntime(tmp_path, process=True) as runtime:
        assert runtime._child is not None
        assert runtime._child.pid is not None
        code = (
            "import os, subprocess\n"
            "other = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
            "print(os.getpid(), os.getppid(), other.pid)"
        )
        pids = (await runtime.run_ipython(code)).content.split()
        place = Path((await runtime.run_ipython("1")).metadata.log_path or "").parent
        os.kill(runtime._child.pid, signal.SIGKILL)
        for pid in pids:
            await gone(int(pid))
    assert not place.exists()


@pytest.mark.slow
async def test_closing_fails_callers_that_wait_for_a_cell(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "up")
    sandbox = await made(settings(tmp_path))
    cell = IPythonRun("import time\nopen('up', 'w').close()\ntime.sleep(600)")
    running = asyncio.create_task(sandbox.act(cell))
    await asyncio.to_thread((tmp_path / "up").read_text)
    await sandbox.aclose()
    with pytest.raises(Exception, match="closed"):
        await running


@pytest.mark.slow
async def test_closing_while_the_kernel_starts_leaves_nothing(tmp_path: Path) -> None:
    sandbox = await made(settings(tmp_path))
    starting = asyncio.create_task(sandbox.act(IPythonRun("1")))
    await asyncio.sleep(0)
    await sandbox.aclose()
    with pytest.raises(Exception, match="closed"):
        await starting
    assert not sandbox.shells.log_dir.exists()


@pytest.mark.slow
async def test_images_past_the_limit_are_omitted_with_a_note(tmp_path: Path) -> None:
    async with await made(settings(tmp_path)) as sandbox:
        code = (
            "from IPython.display import display\n"
            "for _ in range(4): display({'image/png': 'A' * (10 << 20)}, raw=True)"
        )
        seen = await sandbox.act(IPythonRun(code))
        assert isinstance(seen, IPythonOutput)
        assert len(seen.image_urls or ()) == 2
        assert "2 more images left out" in seen.content
