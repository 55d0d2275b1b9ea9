"""The tabs of a browser: the active tab, downloads, dialogs and pending requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Final

from playwright.async_api import (
    BrowserContext,
    CDPSession,
    Dialog,
    Download,
    Error,
    Page,
    Request,
    Response,
)

from .file_viewer import without_key
from .page_reader import PageReader

logger = logging.getLogger(__name__)

_AWAITED_TYPES: Final = frozenset({"document", "fetch", "xhr", "script", "stylesheet"})
"""Types of requests whose responses change the visible page, so that an action waits for them."""
_STOP_LOADING_TIMEOUT: Final = 2.0
_CLOSE_TIMEOUT: Final = 3.0
_MAX_FILE_NAME: Final = 200
"""Maximum characters of the name of a downloaded file."""


class Tab:
    """One page and the state of its requests."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.reader = PageReader(page)
        self.has_crashed = asyncio.Event()
        self.is_stuck = False
        """The page did not answer when it was last read."""
        self.requested_url = ""
        """URL of the last navigation, by the agent or by the page."""
        self.answer: Response | None = None
        """Response to the last navigation; None if it has not arrived yet."""
        self.failure = ""
        """The browser's error if the last navigation failed."""
        self._under_way: set[Request] = set()
        self._changed = asyncio.Event()
        page.on("crash", lambda _: self.has_crashed.set())
        page.on("request", self._on_request)
        page.on("requestfinished", self._request_ended)
        page.on("requestfailed", self._on_request_failed)
        page.on("response", self._on_response)

    @property
    def url(self) -> str:
        """URL for observations; if the page did not load, the requested URL."""
        return without_key(self.requested_url if self.shows_error else self.page.url)

    @property
    def shows_error(self) -> bool:
        """Whether Chromium shows its own error page."""
        return self.page.url.startswith("chrome-error:")

    async def stop_loading(self) -> None:
        """Stop loading a page that does not respond; the previous page stays usable."""
        try:
            async with asyncio.timeout(_STOP_LOADING_TIMEOUT):
                cdp_session = await self.page.context.new_cdp_session(self.page)
                await cdp_session.send("Page.stopLoading")
                await cdp_session.detach()
        except (Error, TimeoutError) as error:
            logger.debug("a page did not stop loading: %s", error)

    def loading(self) -> frozenset[Request]:
        return frozenset(self._under_way)

    async def wait_for_requests(self, since: frozenset[Request], *, within: float) -> bool:
        """Wait until all requests that are not in `since` are over; False if they take longer than
        `within` seconds."""
        try:
            async with asyncio.timeout(within):
                while self._under_way - since:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def forget_answer(self) -> None:
        """Forget the last response, before a call that may load another page."""
        self.answer, self.failure = None, ""

    def _on_request(self, request: Request) -> None:
        if request.resource_type in _AWAITED_TYPES:
            self._under_way.add(request)
        if self._is_for_page(request):
            self.forget_answer()
            self.requested_url = request.url

    def _on_response(self, response: Response) -> None:
        if self._is_for_page(response.request):
            self.answer = response

    def _on_request_failed(self, request: Request) -> None:
        why = request.failure or "it failed"
        # A navigation that becomes a download ends with ERR_ABORTED, which is not a failure.
        if self._is_for_page(request) and "ERR_ABORTED" not in why:
            self.failure = why
        self._request_ended(request)

    def _is_for_page(self, request: Request) -> bool:
        """Whether the request loads a new document for the whole page, not for a frame in it."""
        try:
            return request.is_navigation_request() and request.frame is self.page.main_frame
        except Error:  # from a service worker, or from a frame that does not exist yet
            return False

    def _request_ended(self, request: Request) -> None:
        self._under_way.discard(request)
        self._changed.set()


class Tabs:
    """All tabs of one context, in the order of their opening. `front` returns the active tab."""

    def __init__(
        self,
        context: BrowserContext,
        *,
        max_tabs: int,
        downloads: Path,
        note: Callable[[str], None],
    ) -> None:
        self._context = context
        self._max_tabs = max_tabs
        self._downloads = downloads
        self._note = note
        self._tabs: list[Tab] = []
        self._front: Tab | None = None
        self._saving: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Event()
        self._changed = asyncio.Event()
        self._browser_cdp: CDPSession | None = None
        self._context_id = ""
        self.downloaded: list[str] = []
        """Files downloaded since the beginning of the action."""
        self.accepts_dialogs = True
        self.dialog_text = ""
        context.on("page", self._on_page)
        context.on("dialog", self._on_dialog)

    @property
    def urls(self) -> list[str]:
        return [tab.url for tab in self._tabs]

    def index(self, tab: Tab) -> int:
        return self._tabs.index(tab) if tab in self._tabs else -1

    async def wait_for_new_tabs(self, *, within: float) -> None:
        """Wait for tabs that pages have opened but Playwright has not reported. Playwright reports
        a tab only after the first response."""
        try:
            async with asyncio.timeout(within):
                while True:
                    self._changed.clear()
                    if await self._count() <= len(self._tabs):
                        return
                    await self._changed.wait()
        except (Error, TimeoutError) as error:
            logger.debug("a new tab did not open: %s", error)

    async def _count(self) -> int:
        """Return the number of tabs according to the browser itself."""
        if not self._tabs or self._context.browser is None:
            return 0
        if self._browser_cdp is None:
            page_cdp = await self._context.new_cdp_session(self._tabs[0].page)
            own_target = await page_cdp.send("Target.getTargetInfo")
            await page_cdp.detach()
            self._context_id = own_target["targetInfo"]["browserContextId"]
            self._browser_cdp = await self._context.browser.new_browser_cdp_session()
        targets = await self._browser_cdp.send("Target.getTargets")
        return sum(
            each["type"] == "page" and each.get("browserContextId") == self._context_id
            for each in targets["targetInfos"]
        )

    async def front(self) -> Tab:
        """Return the active tab. If it crashed or was closed, another tab becomes active."""
        if self._front is not None and self._front.has_crashed.is_set():
            await self.close(self._front)
        if self._front is None:
            self._front = self._tabs[-1] if self._tabs else await self.open()
        return self._front

    async def open(self) -> Tab:
        page = await self._context.new_page()
        self._on_page(page)
        return self._tab_of(page)

    async def close(self, tab: Tab) -> None:
        self._on_close(tab)
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await tab.page.close()
        except (Error, TimeoutError) as error:
            logger.debug("a tab did not close: %s", error)

    async def focus(self, index: int) -> Tab:
        """Make a tab active. Raises `IndexError`."""
        self._front = self._tabs[index]
        await self._front.page.bring_to_front()
        return self._front

    async def wait_for_downloads(self, *, within: float) -> bool:
        """Wait for running downloads; False if some are not complete in time."""
        if self._saving:
            await asyncio.wait(set(self._saving), timeout=within)
        return not self._saving

    async def wait_for_download(self, *, after: int, within: float) -> bool:
        """Wait until more than `after` files have been downloaded; False after the timeout."""
        try:
            async with asyncio.timeout(within):
                while len(self.downloaded) <= after:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            return False
        return True

    def _tab_of(self, page: Page) -> Tab:
        return next(tab for tab in self._tabs if tab.page is page)

    def _on_page(self, page: Page) -> None:
        if any(tab.page is page for tab in self._tabs):
            return
        tab = Tab(page)
        self._tabs.append(tab)
        page.on("download", self._download)
        page.on("close", lambda _: self._on_close(tab))
        if len(self._tabs) > self._max_tabs:
            self._note(
                f"A page opened a tab, which was closed: the maximum is {self._max_tabs} tabs"
            )
            self._track_save(asyncio.ensure_future(self.close(tab)))
            return
        self._front = tab
        self._changed.set()

    def _on_close(self, tab: Tab) -> None:
        if tab in self._tabs:
            self._tabs.remove(tab)
        if self._front is tab:
            self._front = self._tabs[-1] if self._tabs else None
        self._changed.set()

    # Events of pages ----------------------------------------------------------------------

    def _on_dialog(self, dialog: Dialog) -> None:
        kind, accept = dialog.type, self.accepts_dialogs or dialog.type == "alert"
        answer = {True: "OK", False: "Cancel"}[accept]
        text = self.dialog_text or dialog.default_value
        if kind == "prompt" and accept:
            answer = repr(text)
        if kind != "beforeunload":
            self._note(f"The page showed a dialog ({kind}): {dialog.message!r}; answered {answer}")
        self._track_save(asyncio.ensure_future(_answer(dialog, accept=accept, text=text)))

    def _download(self, download: Download) -> None:
        self._track_save(asyncio.ensure_future(self._save(download)))

    async def _save(self, download: Download) -> None:
        try:
            file = await asyncio.to_thread(_free_path, self._downloads, download.suggested_filename)
            await download.save_as(file)
        except (Error, OSError) as error:
            first_line = str(error).partition("\n")[0]
            self._note(f"The download of {download.url} failed: {first_line}")
        else:
            self.downloaded.append(str(file))
            self._arrived.set()
            self._note(f"Downloaded {download.url} to {file}")

    def _track_save(self, task: asyncio.Future[None]) -> None:
        assert isinstance(task, asyncio.Task)
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)


async def _answer(dialog: Dialog, *, accept: bool, text: str) -> None:
    try:
        if not accept:
            await dialog.dismiss()
        elif dialog.type == "prompt":
            await dialog.accept(text)
        else:
            await dialog.accept()
    except Error as error:
        logger.debug("a dialog was closed by the page: %s", error)


def _free_path(directory: Path, suggested: str) -> Path:
    """Return a path in `directory` that does not exist yet. The page suggests the name, so any
    directory in the name is dropped."""
    directory.mkdir(parents=True, exist_ok=True)
    base = PurePosixPath(suggested.replace("\\", "/")).name
    name = base.strip(". ")[:_MAX_FILE_NAME] or "download"
    stem, dot, ending = name.rpartition(".")
    path, number = directory / name, 1
    while path.exists():
        path = directory / (f"{stem} ({number}){dot}{ending}" if dot else f"{name} ({number})")
        number += 1
    return path
