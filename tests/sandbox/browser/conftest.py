"""One browser for all tests that leave it usable: it runs on a loop that outlives them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from bascule.core.actions import Browse, BrowseInteractive
from bascule.core.observations import BrowserOutput
from bascule.sandbox.browser.browser import Browser
from bascule.sandbox.browser.settings import BrowserSettings, find_chromium
from bascule.sandbox.shell.settings import ShellSettings

from .pages import PageServer, serving_pages


async def make_browser(
    directory: Path,
    *,
    roots: tuple[Path, ...] = (),
    served_at: tuple[tuple[str, int], ...] = (),
    **settings: object,
) -> Browser:
    told = BrowserSettings(**settings)  # type: ignore[arg-type]
    chromium = await asyncio.to_thread(find_chromium, told)
    assert chromium, "these tests need Chromium and playwright: scripts/browser"
    shells = ShellSettings(working_dir=directory)
    return Browser(chromium, told, shells, roots=roots, served_at=served_at)


@dataclass(frozen=True)
class BrowserUser:
    """A browser and somebody who uses it."""

    browser: Browser
    directory: Path

    async def browse(self, url: str, *, timeout: float | None = None) -> BrowserOutput:
        seen = await self.browser.act(Browse(url, timeout=timeout))
        assert isinstance(seen, BrowserOutput), seen
        return seen

    async def do(self, *calls: str, timeout: float | None = None) -> BrowserOutput:
        seen = await self.browser.act(BrowseInteractive("\n".join(calls), timeout=timeout))
        assert isinstance(seen, BrowserOutput), seen
        return seen

    async def well(self, *calls: str) -> BrowserOutput:
        """Do what has to succeed."""
        seen = await self.do(*calls)
        assert not seen.error, seen.last_browser_action_error
        return seen


def bid(seen: BrowserOutput, what: str) -> str:
    """The number of the first element whose line in the tree holds `what`."""
    found = re.search(rf"^\s*\[(\w+)\] [^\n]*{re.escape(what)}", seen.content, re.MULTILINE)
    assert found, f"no {what!r} in:\n{seen.content}"
    return found[1]


@pytest.fixture(scope="session")
def pages() -> Iterator[PageServer]:
    with serving_pages() as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[BrowserUser]:
    directory = tmp_path_factory.mktemp("browser")
    async with await make_browser(directory) as browser:
        yield BrowserUser(browser, directory)


@pytest_asyncio.fixture(loop_scope="session")
async def visitor(shared: BrowserUser) -> AsyncIterator[BrowserUser]:
    """The shared browser; one tab is open in the end as in the beginning."""
    yield shared
    seen = await shared.do("noop(0)")
    for _ in seen.open_pages_urls[1:]:
        await shared.do("tab_close()")
    await shared.do("answer_dialogs(True)")
