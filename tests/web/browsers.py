"""Browsers as people have them: no switch of a test tool changes their rules about cookies. They
only let pages open windows without a click.

Chromium is driven by Playwright without its own switches, Firefox by Marionette, which it speaks
itself. Both have a profile of their own that is removed with them.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from playwright.async_api import Page, async_playwright

from bascule.sandbox.browser.settings import BrowserSettings, find_chromium

CHROMIUM = find_chromium(BrowserSettings())
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
_TIMEOUT = 90.0
_PREFERENCES = {
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.disable_open_during_load": False,
    "network.captive-portal-service.enabled": False,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
}
_READY = "(document.title.startsWith('{') ? document.title : null)"


class Tab(Protocol):
    """A tab, and what a person can do in it."""

    async def goto(self, url: str) -> None: ...
    async def url(self) -> str: ...
    async def text(self, selector: str) -> str:
        """Of what is there, waited for."""
        ...

    async def fill(self, selector: str, text: str) -> None: ...
    async def click(self, selector: str) -> None: ...
    async def report(self) -> dict[str, str]:
        """What the page tells as JSON in its title, waited for."""
        ...


class ChromiumTab:
    def __init__(self, page: Page) -> None:
        self._page = page
        page.set_default_timeout(_TIMEOUT * 1000)

    async def goto(self, url: str) -> None:
        await self._page.goto(url, wait_until="commit")

    async def url(self) -> str:
        return self._page.url

    async def text(self, selector: str) -> str:
        return await self._page.locator(selector).first.inner_text()

    async def fill(self, selector: str, text: str) -> None:
        await self._page.locator(selector).fill(text)

    async def click(self, selector: str) -> None:
        await self._page.locator(selector).first.click()

    async def report(self) -> dict[str, str]:
        told = await self._page.wait_for_function(_READY)
        found: dict[str, str] = json.loads(await told.json_value())
        return found


class Marionette:
    """Firefox's own protocol: a length, a colon and JSON, over one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0

    async def read(self) -> Any:
        size = int((await self._reader.readuntil(b":"))[:-1])
        return json.loads(await self._reader.readexactly(size))

    async def ask(self, command: str, **values: object) -> Any:
        self._number += 1
        text = json.dumps([0, self._number, command, values]).encode()
        self._writer.write(b"%d:%s" % (len(text), text))
        async with asyncio.timeout(_TIMEOUT):
            _, number, error, result = await self.read()
        assert number == self._number
        if error is not None:
            raise MarionetteError(f"{error['error']}: {error['message']}")
        return result


class MarionetteError(Exception):
    """Firefox could not do what was asked."""

    @property
    def is_of_another_page(self) -> bool:
        """Whether the page went elsewhere meanwhile."""
        told = ("unload", "actor", "no such element", "stale element", "discarded", "javascript")
        return any(word in str(self).lower() for word in told)


class FirefoxTab:
    def __init__(self, marionette: Marionette) -> None:
        self._ask = marionette.ask

    async def goto(self, url: str) -> None:
        await self._ask("WebDriver:Navigate", url=url)

    async def url(self) -> str:
        return str((await self._ask("WebDriver:GetCurrentURL"))["value"])

    async def text(self, selector: str) -> str:
        return str((await self._at(selector, "WebDriver:GetElementText"))["value"])

    async def fill(self, selector: str, text: str) -> None:
        await self._at(selector, "WebDriver:ElementSendKeys", text=text)

    async def click(self, selector: str) -> None:
        await self._at(selector, "WebDriver:ElementClick")

    async def report(self) -> dict[str, str]:
        async with asyncio.timeout(_TIMEOUT):
            told: dict[str, str] = json.loads(str(await self._until(_READY)))
        return told

    async def _at(self, selector: str, command: str, **values: object) -> Any:
        """Ask something of an element once it is there, in whichever page then shows it."""
        asked = {"using": "css selector", "value": selector}
        async with asyncio.timeout(_TIMEOUT):
            while True:
                await self._until(f"document.querySelector({json.dumps(selector)}) && 1")
                try:
                    found = (await self._ask("WebDriver:FindElement", **asked))["value"]
                    element = str(next(iter(found.values())))
                    return await self._ask(command, id=element, **values)
                except MarionetteError as error:
                    if not error.is_of_another_page:
                        raise

    async def _until(self, expression: str) -> object:
        """What it is once it is anything. A page that goes elsewhere takes its script along, which
        is told as an error or as nothing."""
        script = (
            "const done = arguments[arguments.length - 1]; const look = () => { const seen = "
            f"{expression}; if (seen) done(seen); else setTimeout(look, 50); }}; look();"
        )
        while True:
            try:
                asked = {"script": script, "args": []}
                seen = (await self._ask("WebDriver:ExecuteAsyncScript", **asked))["value"]
                if seen is not None:
                    return seen
            except MarionetteError as error:
                if not error.is_of_another_page:
                    raise


@asynccontextmanager
async def chromium(profile: Path, names: Sequence[str]) -> AsyncIterator[Tab]:
    """`names` are host names that lead to this machine."""
    assert CHROMIUM is not None
    rules = ",".join(f"MAP {name} 127.0.0.1" for name in names)
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            profile,
            executable_path=CHROMIUM,
            ignore_default_args=True,
            ignore_https_errors=True,
            args=[
                *("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"),
                *(
                    "--no-first-run",
                    "--disable-popup-blocking",
                    f"--user-data-dir={profile}",
                    f"--host-resolver-rules={rules}",
                ),
                "about:blank",
            ],
        )
        try:
            yield ChromiumTab(await context.new_page())
        finally:
            await context.close()


@asynccontextmanager
async def firefox(profile: Path, names: Sequence[str]) -> AsyncIterator[Tab]:
    """The same, with the names written out: Firefox knows no wildcards for them."""
    assert FIREFOX is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    chosen = {
        **_PREFERENCES,
        "marionette.port": port,
        "network.dns.localDomains": ",".join(names),
    }
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(v)});" for name, v in chosen.items()]
    profile.mkdir()
    (profile / "user.js").write_text("\n".join(lines))
    process = await asyncio.create_subprocess_exec(
        *(FIREFOX, "--headless", "--marionette", "--no-remote", "--profile", str(profile)),
        env={"HOME": str(profile), "PATH": "/usr/bin:/bin", "MOZ_DISABLE_CONTENT_SANDBOX": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    writer = None
    try:
        async with asyncio.timeout(_TIMEOUT):
            while b"Listening on port" not in (line := await process.stdout.readline()):
                assert line, "Firefox ended"
        draining = asyncio.create_task(process.stdout.read())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        marionette = Marionette(reader, writer)
        await marionette.read()
        await marionette.ask("WebDriver:NewSession", acceptInsecureCerts=True)
        timeouts = {"script": int(_TIMEOUT * 1000), "pageLoad": int(_TIMEOUT * 1000)}
        await marionette.ask("WebDriver:SetTimeouts", **timeouts)
        yield FirefoxTab(marionette)
        draining.cancel()
    finally:
        if writer is not None:
            writer.close()
        process.kill()
        await process.wait()
