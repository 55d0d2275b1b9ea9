"""Runs one browser, and builds the observation of each action."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Browser, CDPSession, Error, Playwright, async_playwright

from bascule.core.contracts import Closable
from bascule.core.errors import BasculeError, BrowserCrashed, NoSuchPath, SandboxStartFailed
from bascule.sandbox.files.paths import Paths

from .address_resolver import AddressResolver
from .calls import BrowserCall, parse_calls
from .file_viewer import FileViewer
from .page_actions import PageActions
from .screenshots import ScreenshotMarker, ScreenshotStore, data_url, take_screenshot
from .settings import DOWNLOADS, SCREENSHOTS, BrowserSettings
from .socks_proxy import BrowserProxy
from .tabs import Tab, Tabs
from .tree import AccessibilityTree

logger = logging.getLogger(__name__)

_FLAGS: Final = (
    "--disable-gpu",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--disk-cache-size=67108864",
    "--js-flags=--max-old-space-size=1024",
    "--renderer-process-limit=8",
)
"""Nothing bypasses the proxy: no QUIC, no direct WebRTC, no DNS lookups. Limits the memory of each
page and the number of processes."""

_CRASHED: Final = "The browser crashed during the action; the next one starts it again"
_LAUNCH_TIMEOUT: Final = 45.0
_STOP_TIMEOUT: Final = 5.0
_LIST_TIMEOUT: Final = 4.0
_MAX_LISTED: Final = 150
"""Maximum number of elements listed after the text of a page."""
_MAX_NOTES: Final = 30
_MAX_NOTE: Final = 500
"""Maximum characters of a note."""
_MAX_START_ERROR: Final = 1500
"""Maximum characters of Chromium's output in an error message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSetup:
    """Paths and addresses that the worker needs: the `start` message without its settings."""

    chromium: str
    working_dir: Path
    roots: tuple[str, ...] = ()
    own: tuple[tuple[str, int], ...] = ()
    """Addresses of the action server: blocked for pages; `goto` shows files at their `/view`."""
    saves_screenshots: bool = True


class BrowserSession(Closable):
    """One browser with one context.

    Actions run one at a time. When a page or the browser crashes, the running action fails, and the
    next action gets a new page or browser.
    """

    def __init__(self, setup: BrowserSetup, settings: BrowserSettings) -> None:
        self._setup = setup
        self._settings = settings
        self._paths = Paths(setup.roots or None)
        self._viewer = FileViewer(self._resolve)
        self._proxy = BrowserProxy((*settings.refused, *setup.own), self._viewer.serve)
        self._addresses = AddressResolver(
            self._proxy, self._viewer, own=setup.own, allows_files=not setup.roots
        )
        self._screenshots = ScreenshotStore(setup.working_dir / SCREENSHOTS)
        self._turn = asyncio.Lock()
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._crashed = asyncio.Event()
        self._cdp_session: CDPSession
        self._tabs: Tabs
        self._marker: ScreenshotMarker
        self._notes: list[str] = []

    async def start(self) -> None:
        """Start the browser. Raises `SandboxStartFailed`."""
        await self._proxy.start()
        self._playwright = await async_playwright().start()
        await self._launch()

    async def browse(self, args: Mapping[str, Any], timeout: float | None) -> dict[str, Any]:
        url = str(args.get("url", ""))
        quoted = url.replace("\\", "\\\\").replace('"', '\\"')
        goto = BrowserCall("goto", {"url": url}, f'goto("{quoted}")')
        return await self._act("browse", goto, args, timeout)

    async def interact(self, args: Mapping[str, Any], timeout: float | None) -> dict[str, Any]:
        return await self._act(
            "browse_interactive", str(args.get("browser_actions", "")), args, timeout
        )

    async def aclose(self) -> None:
        if self._browser is not None:
            await self._browser.close()
        if self._playwright is not None:
            await self._playwright.stop()
        await self._proxy.aclose()

    # The browser --------------------------------------------------------------------------

    async def _launch(self) -> None:
        assert self._playwright is not None
        flags = [*_FLAGS, f"--window-size={self._settings.width},{self._settings.height}"]
        for sandboxed in (True, False) if await _may_be_sandboxed() else (False,):
            try:
                self._browser = await self._playwright.chromium.launch(
                    executable_path=self._setup.chromium,
                    args=flags,
                    chromium_sandbox=sandboxed,
                    proxy={"server": f"socks5://127.0.0.1:{self._proxy.port}", "bypass": ""},
                    timeout=_LAUNCH_TIMEOUT * 1000,
                )
                break
            except Error as error:
                if not sandboxed:
                    output = error.message[-_MAX_START_ERROR:]
                    raise SandboxStartFailed(f"The browser did not start: {output}") from None
                logger.warning("Chromium's own sandbox does not work here; starting without it")
        assert self._browser is not None
        crashed = self._crashed = asyncio.Event()
        self._browser.on("disconnected", lambda _: crashed.set())
        self._cdp_session = await self._browser.new_browser_cdp_session()
        context = await self._browser.new_context(
            viewport={"width": self._settings.width, "height": self._settings.height},
            accept_downloads=True,
        )
        self._tabs = Tabs(
            context,
            max_tabs=self._settings.max_tabs,
            downloads=self._setup.working_dir / DOWNLOADS,
            note=self._note,
        )
        self._marker = ScreenshotMarker(self._browser)

    async def _ensure_running(self) -> None:
        if not await self._is_responding():
            try:
                await self._launch()
            except SandboxStartFailed:  # the Playwright driver may have died as well
                await self._restart_driver()
                await self._launch()
            self._note("The browser had crashed and was started again; its tabs are gone")

    async def _restart_driver(self) -> None:
        gone, self._playwright = self._playwright, None
        if gone is not None:
            try:
                async with asyncio.timeout(_STOP_TIMEOUT):
                    await gone.stop()
            except (Error, OSError) as error:
                logger.debug("the driver of the browser has ended: %s", error)
        self._playwright = await async_playwright().start()

    async def _is_responding(self) -> bool:
        """Whether the browser responds. A crash may not have been reported yet, so we send a
        request."""
        if self._crashed.is_set():
            return False
        try:
            async with asyncio.timeout(_LAUNCH_TIMEOUT):
                await self._cdp_session.send("Browser.getVersion")
        except (Error, TimeoutError):
            return False
        return True

    # One action ---------------------------------------------------------------------------

    async def _act(
        self, kind: str, calls: str | BrowserCall, args: Mapping[str, Any], timeout: float | None
    ) -> dict[str, Any]:
        async with self._turn:
            self._notes.clear()
            await self._ensure_running()
            work = asyncio.ensure_future(self._perform(kind, calls, args, timeout))
            crashing = asyncio.ensure_future(self._crashed.wait())
            try:
                await asyncio.wait({work, crashing}, return_when=asyncio.FIRST_COMPLETED)
                if not work.done() or (self._crashed.is_set() and work.exception() is not None):
                    raise BrowserCrashed(_CRASHED)
                return work.result()
            finally:
                work.cancel()
                crashing.cancel()
                await asyncio.gather(work, crashing, return_exceptions=True)

    async def _perform(
        self, kind: str, calls: str | BrowserCall, args: Mapping[str, Any], timeout: float | None
    ) -> dict[str, Any]:
        actions = PageActions(
            self._tabs,
            addresses=self._addresses,
            settings=self._settings,
            resolve=self._resolve,
            note=self._note,
        )
        self._tabs.downloaded.clear()
        text = calls if isinstance(calls, str) else calls.text
        last, failure = text, ""
        limit = timeout or self._settings.timeout
        try:
            async with asyncio.timeout(limit):
                for call in parse_calls(calls) if isinstance(calls, str) else [calls]:
                    last = call.text
                    await actions.do(call)
                await self._tabs.wait_for_downloads(within=min(limit, self._settings.load_timeout))
        except TimeoutError:
            failure = f"{last} was not done within {limit:g} seconds"
        except BasculeError as error:
            failure = error.message
        except Error as error:
            failure = f"{last}: {_first_line(error)}"
        if self._tabs.downloaded and not failure and last.startswith("goto"):
            return self._download(self._tabs.downloaded[-1])
        state = await self._read_page(with_tree=kind != "browse" or bool(args.get("return_axtree")))
        return await self._observation(kind, state, text, failure, actions, args)

    def _download(self, file: str) -> dict[str, Any]:
        content = f"[Location of downloaded file: {file}]"
        return {"kind": "download", "content": content, "extras": {"file_path": file}}

    async def _read_page(self, *, with_tree: bool) -> _PageState:
        tab = await self._tabs.front()
        state = _PageState(tab)
        drawing = asyncio.ensure_future(
            take_screenshot(tab.page, limit=self._settings.picture_limit)
        )
        try:
            async with asyncio.timeout(self._settings.look_timeout):
                if with_tree:
                    state.tree = await tab.reader.tree()
                else:
                    state.text = await tab.reader.text(self._settings.text_limit)
            tab.is_stuck = False
            if not with_tree:
                state.elements = await self._elements(tab)
        except (Error, TimeoutError):
            if not await self._is_responding():
                raise BrowserCrashed(_CRASHED) from None
            tab.is_stuck = True
            self._note("The page does not answer: a script in it may not end")
        finally:
            state.picture = await drawing
        return state

    async def _elements(self, tab: Tab) -> list[str]:
        """List the elements that calls can name. Empty if the page is slow, because the text of the
        page is enough then."""
        try:
            async with asyncio.timeout(_LIST_TIMEOUT):
                return list((await tab.reader.tree()).listed(limit=_MAX_LISTED))
        except (Error, TimeoutError) as error:
            logger.debug("a page did not list its elements: %s", error)
            return []

    async def _observation(
        self,
        kind: str,
        state: _PageState,
        calls: str,
        failure: str,
        actions: PageActions,
        args: Mapping[str, Any],
    ) -> dict[str, Any]:
        url = state.tab.url
        picture = data_url(state.picture)
        path = None
        if self._setup.saves_screenshots:
            path = await asyncio.to_thread(self._screenshots.save, state.picture)
        extras: dict[str, Any] = {
            "url": url,
            "trigger_by_action": kind,
            "screenshot": picture,
            "screenshot_path": path,
            "error": bool(failure),
            "open_pages_urls": self._tabs.urls,
            "active_page_index": self._tabs.index(state.tab),
            "last_browser_action": calls,
            "last_browser_action_error": failure,
        }
        if state.tree is not None:
            extras["focused_element_bid"] = state.tree.focused
            extras["set_of_marks"] = await self._marker.mark(picture, state.tree.nodes)
            if args.get("return_axtree"):
                extras["axtree_object"] = state.tree.as_object()
                extras["extra_element_properties"] = state.tree.properties()
        lines = [f"[Current URL: {url}]"]
        if kind != "browse":
            lines += [f"[Focused element bid: {extras.get('focused_element_bid', '')}]"]
            lines += [f"[Screenshot saved to: {path}]"] if path else []
        lines += [f"[{note}]" for note in self._notes[:_MAX_NOTES]]
        if (more := len(self._notes) - _MAX_NOTES) > 0:
            lines.append(f"[… {more} more such notes …]")
        lines += [f"[Message to the user: {text}]" for text in actions.messages]
        if failure:
            lines += ["", "=== BEGIN error of the last action ===", failure]
            lines += ["=== END error of the last action ===", ""]
        elif kind != "browse":
            lines.append("[Action executed successfully.]")
        lines += self._body(state)
        return {"kind": "browse", "content": "\n".join(lines), "extras": extras}

    def _body(self, state: _PageState) -> list[str]:
        if state.tree is None:
            return [
                "============== BEGIN webpage content ==============",
                state.text,
                "============== END webpage content ==============",
                *_listed(state.elements),
            ]
        partly = (
            "; only what is in view and a screen around it, for the page is large"
            if state.tree.is_partial
            else ""
        )
        return [
            f"============== BEGIN accessibility tree{partly} ==============",
            _cut("\n".join(state.tree.lines()), self._settings.text_limit),
            "============== END accessibility tree ==============",
        ]

    def _note(self, text: str) -> None:
        """Add a note to the observation. Pages influence the text of a note, so it is cut."""
        self._notes.append(text if len(text) <= _MAX_NOTE else text[:_MAX_NOTE] + "…")

    def _resolve(self, path: str) -> Path:
        if not path:
            raise NoSuchPath("The address of the viewer must contain a `path`")
        expanded = str(Path(path).expanduser()) if path.startswith("~") else path
        return self._paths.resolve(expanded, str(self._setup.working_dir))


class _PageState:
    """The state of a tab, as it was read for one observation."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.text = ""
        self.elements: list[str] = []
        """Elements for calls, with their bids; empty if `tree` is set, which contains them."""
        self.tree: AccessibilityTree | None = None
        self.picture = b""


def _listed(elements: Sequence[str]) -> list[str]:
    """Format the elements with their bids, which the next action needs."""
    if not elements:
        return []
    return [
        "============== BEGIN elements for browse_interactive, as in click('12') ==============",
        *elements,
        "============== END elements ==============",
    ]


def _cut(text: str, limit: int) -> str:
    """Cut the middle out of a text longer than `limit`, at line ends."""
    if len(text) <= limit:
        return text
    head = text[: limit // 2].rpartition("\n")[0]
    tail = text[-(limit // 2) :].partition("\n")[2]
    left_out = text.count("\n") - head.count("\n") - tail.count("\n") - 1
    return f"{head}\n[… {left_out} lines left out …]\n{tail}"


def _first_line(error: Error) -> str:
    """The first line of Playwright's error, and the element that blocked a click, if any."""
    lines = error.message.splitlines()
    blocking = [line.strip(" -") for line in lines if "intercepts pointer events" in line]
    reasons = [line.strip(" -") for line in lines if "element is not" in line]
    return "; ".join([lines[0], *dict.fromkeys((*blocking[:1], *reasons[:1]))])


async def _may_be_sandboxed() -> bool:
    """Whether Chromium's own sandbox may work. It needs user namespaces, and does not run as root.

    Sessions have no user namespaces. Testing here is cheaper than a failed start of Chromium.
    """
    if os.geteuid() == 0:
        return False
    with contextlib.suppress(FileNotFoundError):
        unshare = await asyncio.create_subprocess_exec(
            *("unshare", "--user", "true"),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        return await unshare.wait() == 0
    return True
