"""What `Sandbox` adds to shells and files; the rest is in the suite of runtimes."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bascule.core.actions import Browse, CmdRun, FileRead, FileWrite, Grep
from bascule.core.contracts import MANDATORY_CAPABILITIES
from bascule.core.errors import AccessDenied, SandboxDied
from bascule.core.observations import Error, FileContent
from bascule.sandbox.browser.settings import BrowserSettings
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.programs.program_request import ProgramRequest
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings


def settings(tmp_path: Path, **more: object) -> SandboxSettings:
    shells = ShellSettings(working_dir=tmp_path, env={"PATH": "/usr/bin:/bin"})
    return SandboxSettings(shells=shells, **more)  # type: ignore[arg-type]


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with await asyncio.to_thread(Sandbox, settings(tmp_path)) as sandbox:
        yield sandbox


async def test_the_executor_has_mandatory_capabilities_and_browses_if_possible(
    tmp_path: Path,
) -> None:
    program = tmp_path / "chromium"
    program.touch()
    for browser, more in (
        (BrowserSettings(enabled=False), set[str]()),
        (BrowserSettings(chromium=str(tmp_path / "missing")), set()),
        (BrowserSettings(chromium=str(program)), {"browse", "browse_interactive"}),
    ):
        made = await asyncio.to_thread(Sandbox, settings(tmp_path, browser=browser))
        async with made as sandbox:
            assert sandbox.capabilities == MANDATORY_CAPABILITIES | more


async def test_without_a_browser_the_error_says_what_is_missing(tmp_path: Path) -> None:
    browser = BrowserSettings(enabled=False)
    async with await asyncio.to_thread(Sandbox, settings(tmp_path, browser=browser)) as sandbox:
        seen = await sandbox.act(Browse("http://example.com"))

    assert isinstance(seen, Error)
    assert seen.error_id == "capability.missing"
    assert "Browser functionality is not supported or disabled" in seen.content


async def test_an_internal_error_is_an_observation_and_is_logged_once(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("of no use to callers")

    logged: list[logging.LogRecord] = []
    logger = logging.getLogger("bascule.sandbox.executor")
    monkeypatch.setattr(logger, "handle", logged.append)
    monkeypatch.setattr(sandbox, "in_thread", broken)
    action = FileRead("note")
    seen = await sandbox.act(action)

    assert isinstance(seen, Error)
    assert (seen.error_id, seen.cause) == ("internal", action.id)
    assert "of no use" not in seen.content
    assert [record.exc_info is not None for record in logged] == [True]


async def test_a_file_action_past_its_timeout_is_reported(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    files = await asyncio.to_thread(lambda: sandbox.files)
    monkeypatch.setattr(files, "execute", lambda *_: release.wait())
    seen = await sandbox.act(FileRead("note", timeout=0.05))
    release.set()
    assert isinstance(seen, Error)
    assert seen.error_id == "action.timed_out"


async def test_more_file_actions_than_threads_all_complete(tmp_path: Path) -> None:
    async with await asyncio.to_thread(Sandbox, settings(tmp_path, threads=2)) as sandbox:
        seen = await asyncio.gather(
            *(sandbox.act(FileWrite(f"file-{n}", str(n))) for n in range(50))
        )
        assert not any(isinstance(each, Error) for each in seen)
        assert len(list(tmp_path.iterdir())) == 50


async def test_files_are_confined_to_the_roots_if_configured(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_text("secret")
    (inside / "link").symlink_to(tmp_path / "secret")
    confined = SandboxSettings(shells=ShellSettings(working_dir=inside), roots=(inside,))
    async with await asyncio.to_thread(Sandbox, confined) as sandbox:
        for path in ("../secret", "link", str(tmp_path / "secret")):
            seen = await sandbox.act(FileRead(path))
            assert isinstance(seen, Error)
            assert seen.error_id == "path.outside_roots"
        assert isinstance(await sandbox.act(Grep("secret", "..")), Error)
        await sandbox.act(FileWrite("note", "fine"))
        assert isinstance(await sandbox.act(FileRead("note")), FileContent)


async def test_closing_fails_pending_actions_with_sandbox_died(tmp_path: Path) -> None:
    sandbox = await asyncio.to_thread(Sandbox, settings(tmp_path))
    started = asyncio.Event()
    running = asyncio.create_task(
        sandbox.act(CmdRun("echo up; cat"), on_progress=lambda _: started.set())
    )
    await started.wait()
    await sandbox.aclose()
    with pytest.raises(SandboxDied):
        await running
    for action in (CmdRun("true"), FileRead("note")):
        with pytest.raises(SandboxDied):
            await sandbox.act(action)
    await sandbox.aclose()


async def test_a_newly_revoked_token_starts_nothing_after_many_others(sandbox: Sandbox) -> None:
    programs = sandbox.programs
    for number in range(600):
        await programs.end_started_by(f"token {number}")
    request = ProgramRequest(argv=("true",))
    with pytest.raises(AccessDenied, match="revoked"):
        await programs.start(request, started_by="token 599")
    assert len(programs._revoked) < 600
