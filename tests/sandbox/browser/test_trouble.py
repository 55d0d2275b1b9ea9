"""Pages that never end, crash or hang, browsers that die, and servers that are killed."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from bascule.core.actions import Browse, BrowseInteractive
from bascule.core.errors import BrowserCrashed, SandboxDied, SandboxStartFailed
from bascule.core.observations import BrowserOutput
from bascule.sandbox.browser.browser import Browser
from bascule.sandbox.browser.settings import BrowserSettings
from bascule.sandbox.shell.settings import ShellSettings
from tests.contracts.runtime import gone

from .conftest import BrowserUser, bid, make_browser
from .pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fragile(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[BrowserUser]:
    directory = tmp_path_factory.mktemp("fragile")
    async with await make_browser(directory, load_timeout=2.0, act_timeout=2.0) as browser:
        yield BrowserUser(browser, directory)


def below(browser: Browser) -> list[psutil.Process]:
    assert browser._keeper is not None
    assert browser._keeper._process is not None
    return psutil.Process(browser._keeper._process.pid).children(recursive=True)


def words_of(process: psutil.Process) -> list[str]:
    """Its command line; nothing of one that has ended meanwhile."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def running(browser: Browser, word: str) -> list[psutil.Process]:
    return [each for each in below(browser) if word in words_of(each)]


async def busiest(processes: list[psutil.Process]) -> psutil.Process:
    """The first that has used 0.3 seconds more of the processor. Polls: no event tells."""
    began = {each: sum(each.cpu_times()[:2]) for each in processes}
    while True:
        for each in processes:
            if sum(each.cpu_times()[:2]) - began[each] > 0.3:
                return each
        await asyncio.sleep(0.05)


def browser_process(browser: Browser) -> psutil.Process:
    """The one that starts all others of Chromium."""
    return next(
        each
        for each in below(browser)
        if words_of(each)
        and each.name().startswith("chromium")
        and not any(word.startswith("--type=") for word in words_of(each))
    )


# Pages ------------------------------------------------------------------------------------


async def test_a_page_that_never_finishes_loading_is_returned_as_loaded_so_far(
    fragile: BrowserUser, pages: PageServer
) -> None:
    seen = await fragile.browse(f"{pages.url}/spinner")

    assert not seen.error
    assert "Loads for ever" in seen.content
    assert "still loading after 2 seconds" in seen.content


async def test_an_unresponsive_server_is_an_error_and_keeps_the_previous_page(
    fragile: BrowserUser, pages: PageServer
) -> None:
    await fragile.browse(f"{pages.url}/next")
    seen = await fragile.browse(f"{pages.url}/never")

    assert "did not answer in time" in seen.last_browser_action_error
    assert "Next page" in seen.content


async def test_the_timeout_of_the_action_applies(fragile: BrowserUser, pages: PageServer) -> None:
    await fragile.browse(f"{pages.url}/next")
    seen = await fragile.do("noop(20000)", timeout=0.3)
    assert "noop(20000) was not done within 0.3 seconds" in seen.last_browser_action_error


async def test_a_page_with_an_endless_script_is_reported_and_abandoned(
    fragile: BrowserUser, pages: PageServer
) -> None:
    page = await fragile.well(f"goto('{pages.url}/stuck')")
    stuck = await fragile.do(f"click('{bid(page, 'Hang')}')", timeout=1)
    after = await fragile.browse(f"{pages.url}/next")

    assert "does not answer" in stuck.content
    assert "Next page" in after.content


async def test_a_page_crash_is_reported_and_the_next_page_gets_a_new_tab(
    fragile: BrowserUser, pages: PageServer
) -> None:
    pages.pages["/busy"] = (
        "<title>Busy</title><script>setInterval(() => {"
        " const end = performance.now() + 20; while (performance.now() < end); }, 30)</script>"
    )
    await fragile.browse(f"{pages.url}/busy")
    waiting = asyncio.ensure_future(fragile.do("noop(20000)"))
    # Only this page's process: if the spare one that Chromium keeps for the next page is killed at
    # the same time, Chromium itself ends with SIGSEGV now and then.
    (await busiest(running(fragile.browser, "--type=renderer"))).kill()
    seen = await waiting
    after = await fragile.browse(f"{pages.url}/next")

    assert "The page crashed" in seen.last_browser_action_error
    assert "Next page" in after.content
    assert not after.error


async def test_tabs_are_bounded(tmp_path: Path, pages: PageServer) -> None:
    pages.pages["/many"] = (
        "<title>Many</title>"
        "<button onclick=\"for (let i = 0; i < 9; i++) open('/next')\">Go</button>"
    )
    async with await make_browser(tmp_path, max_tabs=3) as browser:
        visitor = BrowserUser(browser, tmp_path)
        page = await visitor.well(f"goto('{pages.url}/many')")
        await visitor.do(f"click('{bid(page, 'Go')}')")
        seen = await visitor.do("noop(200)")
    assert len(seen.open_pages_urls) <= 3


# The browser ------------------------------------------------------------------------------


async def test_a_browser_crash_is_reported_and_the_next_action_starts_a_new_browser(
    fragile: BrowserUser, pages: PageServer
) -> None:
    await fragile.browse(f"{pages.url}/next")
    waiting = asyncio.ensure_future(fragile.browser.act(BrowseInteractive("noop(20000)")))
    await asyncio.sleep(0.2)
    browser_process(fragile.browser).kill()
    with pytest.raises(BrowserCrashed):
        await waiting
    after = await fragile.browse(f"{pages.url}/next")

    assert "Next page" in after.content
    assert "crashed and was started again" in after.content


async def test_a_crash_between_actions_is_reported_with_the_next_action(
    fragile: BrowserUser, pages: PageServer
) -> None:
    process = browser_process(fragile.browser)
    process.kill()
    await gone(process.pid)
    seen = await fragile.browse(f"{pages.url}/next")
    assert "Next page" in seen.content


async def test_a_crashed_browser_driver_is_restarted(
    fragile: BrowserUser, pages: PageServer
) -> None:
    await fragile.browse(f"{pages.url}/next")
    waiting = asyncio.ensure_future(fragile.browser.act(BrowseInteractive("noop(2000)")))
    await asyncio.sleep(0.2)
    (driver,) = running(fragile.browser, "run-driver")
    driver.kill()
    with pytest.raises(BrowserCrashed):
        await waiting
    after = await fragile.browse(f"{pages.url}/next")

    assert "Next page" in after.content
    assert "crashed and was started again" in after.content
    assert len(running(fragile.browser, "run-driver")) == 1


async def test_a_crashed_browser_worker_is_restarted(
    fragile: BrowserUser, pages: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("bascule.sandbox.browser.browser")
    monkeypatch.setattr(logger, "handle", lambda _: None)  # a log on disk would block the loop
    before = below(fragile.browser)
    (worker,) = running(fragile.browser, "bascule.sandbox.browser.worker")
    waiting = asyncio.ensure_future(fragile.browser.act(BrowseInteractive("noop(20000)")))
    await asyncio.sleep(0.2)
    worker.kill()
    with pytest.raises(BrowserCrashed):
        await waiting
    seen = await fragile.browse(f"{pages.url}/next")

    assert "Next page" in seen.content
    assert "started again" in seen.content
    for each in before:
        await gone(each.pid)


async def test_a_browser_that_does_not_start_says_so(tmp_path: Path) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\necho it is broken >&2\nexit 3\n")
    broken.chmod(0o755)
    settings = BrowserSettings(chromium=str(broken))
    shells = ShellSettings(working_dir=tmp_path)
    async with Browser(str(broken), settings, shells) as browser:
        with pytest.raises(SandboxStartFailed, match="it is broken"):
            await browser.act(Browse("about:blank"))


async def test_concurrent_actions_share_one_browser_start_and_take_turns(
    tmp_path: Path, pages: PageServer
) -> None:
    async with await make_browser(tmp_path) as browser:
        paths = ("/", "/next", "/form", "/tabs")
        answers = await asyncio.gather(
            *(browser.act(Browse(f"{pages.url}{path}")) for path in paths)
        )
        workers = running(browser, "bascule.sandbox.browser.worker")

    assert len(workers) == 1
    for path, seen in zip(paths, answers, strict=True):
        assert isinstance(seen, BrowserOutput)
        assert seen.url == f"{pages.url}{path}"


async def test_a_cancelled_action_leaves_the_browser_usable(
    fragile: BrowserUser, pages: PageServer
) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await fragile.do("noop(30000)")
    assert "Next page" in (await fragile.browse(f"{pages.url}/next")).content


# The end ----------------------------------------------------------------------------------


async def test_closing_the_browser_ends_every_process_and_fails_pending_actions(
    tmp_path: Path, pages: PageServer
) -> None:
    browser = await make_browser(tmp_path)
    await browser.act(Browse(f"{pages.url}/next"))
    directory = browser._directory
    processes = below(browser)
    waiting = asyncio.ensure_future(browser.act(BrowseInteractive("noop(20000)")))
    await asyncio.sleep(0.1)
    await browser.aclose()

    with pytest.raises(SandboxDied):
        await waiting
    assert len(processes) > 3
    for each in processes:
        await gone(each.pid)
    assert not directory.exists()


_SERVER = """
import asyncio, sys
from pathlib import Path
from bascule.core.actions import Browse
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings

async def main():
    settings = SandboxSettings(shells=ShellSettings(working_dir=Path(sys.argv[1])))
    sandbox = Sandbox(settings)
    await sandbox.act(Browse(sys.argv[2]))
    print(sandbox.browser._keeper._process.pid, sandbox.browser._directory, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_a_server_killed_by_force_leaves_nothing_behind(
    tmp_path: Path, pages: PageServer
) -> None:
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", _SERVER, str(tmp_path), f"{pages.url}/next"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert server.stdout is not None
    keeper, _, directory = (await server.stdout.readline()).decode().strip().partition(" ")
    processes = psutil.Process(int(keeper)).children(recursive=True)
    os.kill(server.pid, signal.SIGKILL)
    await server.wait()

    assert any("chrom" in name for name in (each.name() for each in processes if each.is_running()))
    for each in (int(keeper), *(each.pid for each in processes)):
        await gone(each)
    assert not Path(directory).exists()


async def test_browser_modules_are_not_imported_until_needed(tmp_path: Path) -> None:
    code = (
        "import sys, bascule.sandbox.executor, bascule.sandbox.server.server;"
        "print([m for m in sys.modules if 'playwright' in m or m.endswith('browser.browser')])"
    )
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await done.communicate()
    assert out.decode().strip() == "[]"
