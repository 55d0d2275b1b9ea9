"""Executes calls on pages: one method per name in `calls.CALLS`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

from playwright.async_api import ElementHandle, Error, Response

from bascule.core.errors import BrowserCrashed, InvalidAction

from .address_resolver import AddressResolver
from .calls import BrowserCall
from .settings import BrowserSettings
from .tabs import Tab, Tabs

_Button = Literal["left", "middle", "right"]

_FRAME_TIMEOUT = 0.2
"""Maximum seconds to wait for the next animation frame, in which the effects of a click become
visible."""
_SETTLE_TIMEOUT = 2.0
"""Maximum seconds to wait for new tabs, and for requests after the page has loaded."""
_FORBIDDEN = 403
"""HTTP status with which the proxy answers requests to blocked addresses."""


class PageActions:
    """Executes calls in the tabs of one browser. A failed call raises an error with the reason."""

    def __init__(
        self,
        tabs: Tabs,
        *,
        addresses: AddressResolver,
        settings: BrowserSettings,
        resolve: Callable[[str], Path],
        note: Callable[[str], None],
    ) -> None:
        self._tabs = tabs
        self._addresses = addresses
        self._settings = settings
        self._resolve = resolve
        self._note = note
        self.messages: list[str] = []
        """Messages to the user, from `send_msg_to_user` and `report_infeasible`."""

    async def do(self, call: BrowserCall) -> None:
        """Execute the call, then wait until the page has settled or the timeout has passed."""
        tab = await self._tabs.front()
        before = tab.loading()
        tab.forget_answer()
        await _unless_crashed(tab, getattr(self, call.name)(**call.arguments))
        if call.name not in _CALLS_WITHOUT_PAGE:
            settled = await self._wait_until_loaded(before)
            await self._tabs.wait_for_new_tabs(
                within=min(_SETTLE_TIMEOUT, self._settings.load_timeout)
            )
            if await self._tabs.front() is not settled:
                settled = await self._wait_until_loaded(frozenset())
            self._ensure_arrived(settled)

    # Navigation and tabs ------------------------------------------------------------------

    async def goto(self, url: str) -> None:
        tab = await self._tabs.front()
        if tab.is_stuck:
            await self._tabs.close(tab)  # an endless script would block the new page as well
            tab = await self._tabs.open()
        target = tab.requested_url = self._addresses.target(url)
        downloads_before = len(self._tabs.downloaded)
        try:
            answer = await tab.page.goto(
                target, wait_until="commit", timeout=self._settings.load_timeout * 1000
            )
        except Error as error:
            limit = self._settings.load_timeout
            if "Download is starting" in error.message and await self._tabs.wait_for_download(
                after=downloads_before, within=limit
            ):
                return
            await tab.stop_loading()
            raise InvalidAction(self._addresses.explain(url, error.message)) from None
        if answer is not None and self._was_refused(answer):
            raise InvalidAction(self._addresses.refusal(url, answer.url))

    async def go_back(self) -> None:
        tab = await self._tabs.front()
        await tab.page.go_back(wait_until="commit", timeout=self._settings.load_timeout * 1000)

    async def go_forward(self) -> None:
        tab = await self._tabs.front()
        await tab.page.go_forward(wait_until="commit", timeout=self._settings.load_timeout * 1000)

    async def tab_new(self) -> None:
        await self._tabs.open()

    async def tab_close(self) -> None:
        await self._tabs.close(await self._tabs.front())
        await (await self._tabs.front()).page.bring_to_front()

    async def tab_focus(self, index: int) -> None:
        try:
            await self._tabs.focus(index)
        except IndexError:
            last = len(self._tabs.urls) - 1
            raise InvalidAction(f"There is no tab {index}; they are 0 to {last}") from None

    async def noop(self, wait_ms: float) -> None:
        await asyncio.sleep(wait_ms / 1000)

    # Elements -----------------------------------------------------------------------------

    async def click(self, bid: str, button: str, modifiers: list[str]) -> None:
        element = await self._element(bid)
        await element.click(
            button=_button(button), modifiers=_modifiers(modifiers), timeout=self._element_timeout
        )

    async def dblclick(self, bid: str, button: str, modifiers: list[str]) -> None:
        element = await self._element(bid)
        await element.dblclick(
            button=_button(button), modifiers=_modifiers(modifiers), timeout=self._element_timeout
        )

    async def hover(self, bid: str) -> None:
        await (await self._element(bid)).hover(timeout=self._element_timeout)

    async def fill(self, bid: str, value: str, enable_autocomplete_menu: bool) -> None:
        element = await self._element(bid)
        await element.fill(value, timeout=self._element_timeout)
        if enable_autocomplete_menu and value:  # only key presses open the menu
            await element.press("End")
            await element.press("Backspace")
            await element.type(value[-1])

    async def clear(self, bid: str) -> None:
        await (await self._element(bid)).fill("", timeout=self._element_timeout)

    async def check(self, bid: str) -> None:
        await (await self._element(bid)).check(timeout=self._element_timeout)

    async def uncheck(self, bid: str) -> None:
        await (await self._element(bid)).uncheck(timeout=self._element_timeout)

    async def select_option(self, bid: str, options: str | list[str]) -> None:
        wanted = [options] if isinstance(options, str) else options
        await (await self._element(bid)).select_option(wanted, timeout=self._element_timeout)

    async def press(self, bid: str, key_comb: str) -> None:
        await (await self._element(bid)).press(key_comb, timeout=self._element_timeout)

    async def focus(self, bid: str) -> None:
        await (await self._element(bid)).focus()

    async def drag_and_drop(self, from_bid: str, to_bid: str) -> None:
        mouse = (await self._tabs.front()).page.mouse
        source, target = await self._element(from_bid), await self._element(to_bid)
        await source.hover(timeout=self._element_timeout)
        await mouse.down()
        try:
            await target.hover(timeout=self._element_timeout)
            await target.hover(timeout=self._element_timeout)  # `dragover` needs a second move
        finally:
            await mouse.up()

    async def upload_file(self, bid: str, file: str | list[str]) -> None:
        names = [file] if isinstance(file, str) else file
        files = [await asyncio.to_thread(self._readable, name) for name in names]
        element = await self._element(bid)
        if await element.evaluate("e => e.tagName === 'INPUT' && e.type === 'file'"):
            await element.set_input_files(files, timeout=self._element_timeout)
            return
        page = (await self._tabs.front()).page
        async with page.expect_file_chooser(timeout=self._element_timeout) as chosen:
            await element.click(timeout=self._element_timeout)
        await (await chosen.value).set_files(files, timeout=self._element_timeout)

    # Mouse and keyboard -------------------------------------------------------------------

    async def scroll(self, delta_x: float, delta_y: float) -> None:
        """Scroll with the mouse wheel: at the mouse position, or in the middle of the page if the
        mouse has not been moved yet."""
        page = (await self._tabs.front()).page
        await page.mouse.wheel(delta_x, delta_y)
        await page.evaluate(_NEXT_FRAME)

    async def keyboard_press(self, key: str) -> None:
        await (await self._tabs.front()).page.keyboard.press(key)

    async def keyboard_type(self, text: str) -> None:
        await (await self._tabs.front()).page.keyboard.type(text)

    async def keyboard_insert_text(self, text: str) -> None:
        await (await self._tabs.front()).page.keyboard.insert_text(text)

    async def keyboard_down(self, key: str) -> None:
        await (await self._tabs.front()).page.keyboard.down(key)

    async def keyboard_up(self, key: str) -> None:
        await (await self._tabs.front()).page.keyboard.up(key)

    async def mouse_move(self, x: float, y: float) -> None:
        await (await self._tabs.front()).page.mouse.move(x, y)

    async def mouse_down(self, x: float, y: float, button: str) -> None:
        mouse = (await self._tabs.front()).page.mouse
        await mouse.move(x, y)
        await mouse.down(button=_button(button))

    async def mouse_up(self, x: float, y: float, button: str) -> None:
        mouse = (await self._tabs.front()).page.mouse
        await mouse.move(x, y)
        await mouse.up(button=_button(button))

    async def mouse_click(self, x: float, y: float, button: str) -> None:
        await (await self._tabs.front()).page.mouse.click(x, y, button=_button(button))

    async def mouse_dblclick(self, x: float, y: float, button: str) -> None:
        await (await self._tabs.front()).page.mouse.dblclick(x, y, button=_button(button))

    async def mouse_drag_and_drop(
        self, from_x: float, from_y: float, to_x: float, to_y: float
    ) -> None:
        mouse = (await self._tabs.front()).page.mouse
        await mouse.move(from_x, from_y)
        await mouse.down()
        await mouse.move(to_x, to_y, steps=8)
        await mouse.up()

    # Dialogs and messages -----------------------------------------------------------------

    async def answer_dialogs(self, accept: bool, text: str) -> None:
        self._tabs.accepts_dialogs, self._tabs.dialog_text = accept, text

    async def send_msg_to_user(self, text: str) -> None:
        self.messages.append(text)

    async def report_infeasible(self, reason: str) -> None:
        self.messages.append(reason)

    # Helpers ------------------------------------------------------------------------------

    @property
    def _element_timeout(self) -> float:
        return self._settings.act_timeout * 1000

    async def _element(self, bid: str) -> ElementHandle:
        return await (await self._tabs.front()).reader.find(bid)

    def _readable(self, name: str) -> str:
        file = self._resolve(name)
        if not file.is_file():
            raise InvalidAction(f"{name} is not a file that can be uploaded")
        return str(file)

    def _was_refused(self, answer: Response) -> bool:
        return answer.status == _FORBIDDEN and self._addresses.is_blocked(answer.url)

    def _ensure_arrived(self, tab: Tab) -> None:
        """Raise the same errors as `goto` if a link or form led to a page that is blocked or did
        not load."""
        if tab.answer is not None and self._was_refused(tab.answer):
            raise InvalidAction(self._addresses.refusal("", tab.answer.url))
        if tab.failure and tab.shows_error:
            raise InvalidAction(self._addresses.explain(tab.requested_url, tab.failure))

    async def _wait_until_loaded(self, before: frozenset[Any]) -> Tab:
        """Wait until the active page has loaded and its requests since the call are complete."""
        tab = await self._tabs.front()
        limit = self._settings.load_timeout
        try:
            await tab.page.wait_for_load_state("load", timeout=limit * 1000)
        except Error:
            if tab.has_crashed.is_set():
                raise BrowserCrashed(_CRASHED) from None
            self._note(f"The page was still loading after {limit:g} seconds; this is what is there")
            return tab
        try:
            async with asyncio.timeout(_FRAME_TIMEOUT):
                await tab.page.evaluate(_NEXT_FRAME)
        except (Error, TimeoutError):
            return tab  # the page navigated away or is stuck, which shows when it is read next
        await tab.wait_for_requests(before, within=min(_SETTLE_TIMEOUT, limit))
        await tab.page.wait_for_load_state("domcontentloaded", timeout=limit * 1000)
        return tab


_CRASHED = "The page crashed; another tab is in its place"
_NEXT_FRAME = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))"
_CALLS_WITHOUT_PAGE = frozenset({"answer_dialogs", "send_msg_to_user", "report_infeasible"})


async def _unless_crashed(tab: Tab, work: Any) -> None:
    """Await `work`. Raises `BrowserCrashed` if the page crashes, since `work` would never end."""
    doing = asyncio.ensure_future(work)
    crashing = asyncio.ensure_future(tab.has_crashed.wait())
    try:
        await asyncio.wait({doing, crashing}, return_when=asyncio.FIRST_COMPLETED)
        if tab.has_crashed.is_set():
            raise BrowserCrashed(_CRASHED)
        await doing
    finally:
        doing.cancel()
        crashing.cancel()
        await asyncio.gather(doing, crashing, return_exceptions=True)


def _button(name: str) -> _Button:
    if name not in ("left", "middle", "right"):
        raise InvalidAction(f"There is no mouse button {name!r}; use left, middle or right")
    return cast(_Button, name)


def _modifiers(names: str | list[str]) -> Any:
    modifiers = [names] if isinstance(names, str) else names
    known = {"Alt", "Control", "ControlOrMeta", "Meta", "Shift"}
    if unknown := [name for name in modifiers if name not in known]:
        raise InvalidAction(f"{unknown[0]!r} is not a modifier key; use {', '.join(sorted(known))}")
    return modifiers
