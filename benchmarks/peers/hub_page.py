"""Ours: the hub's page in Chromium, with many actions to show, at rest and while more come."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Self

from playwright.async_api import Browser, Page, async_playwright

import bascule
from bascule.core.windows import WindowId
from bascule.hub import Hub, HubSettings
from bascule.hub.records.record import Record
from bascule.hub.web.page import is_built
from bascule.hub.window_timelines import WindowTimelines
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.testing.window import FakeWindow
from benchmarks.peers.local_sessions import TOKEN
from benchmarks.peers.serve import respond
from benchmarks.peers.subject import Refused

TIMEOUT = 120_000
BATCH = 1000
TICK = 0.02
"""Seconds between two lots of actions, when they come at a pace."""

SCROLL = """async (frames) => {
  const box = document.querySelector('.rows');
  const seen = [];
  let most = 0;
  let before = await new Promise(requestAnimationFrame);
  for (let i = 0; i < frames; i += 1) {
    box.scrollTop = (i / frames) * box.scrollHeight;
    const now = await new Promise(requestAnimationFrame);
    seen.push(now - before);
    before = now;
    most = Math.max(most, box.querySelectorAll('.row').length);
  }
  box.scrollTop = box.scrollHeight;
  return {seen, most};
}"""
NOTE_LONG_TASKS = """() => {
  window.longTasks = [];
  new PerformanceObserver((list) => window.longTasks.push(...list.getEntries()
    .map((each) => each.duration))).observe({entryTypes: ['longtask']});
}"""
TALLY = """(count) => document.querySelector('.tally')?.textContent === `${count} actions`"""
FIRST_PAINT = """() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"""


class HubPage:
    """A hub, a window beside it and somebody's browser, each time anew."""

    async def start(self) -> None:
        """There is nothing to start: it would be in the way of other cases."""

    async def stop(self) -> None: ...

    async def hello(self) -> dict[str, Any]:
        versions = {"bascule": bascule.__version__}
        return {"pid": os.getpid(), "versions": versions, "server_pid": None}

    async def page(self, actions: int, frames: int, pace: int, seconds: float) -> dict[str, Any]:
        """Sign in, have `actions` shown, scroll through them, then have `pace` more a second."""
        async with _hub() as (hub, window_id), _browser() as browser:
            page = await browser.new_page(viewport={"width": 1280, "height": 800})
            page.set_default_timeout(TIMEOUT)
            found = await _sign_in(page, f"{hub.local_url}/windows/{window_id}")
            actor = await Actor.of(hub._sockets.timelines, WindowId(window_id))
            for _ in range(0, actions, BATCH):
                actor.act(BATCH)
                await page.wait_for_function(TALLY, arg=actor.done)
            return found | await _scroll(page, frames) | await _keep_up(page, actor, pace, seconds)


class Actor:
    """Has actions happen in a window as far as the hub can tell."""

    def __init__(self, timelines: WindowTimelines, window_id: WindowId, record: Record) -> None:
        self.done = 0
        self._timelines = timelines
        self._window_id = window_id
        self._record = record

    @classmethod
    async def of(cls, timelines: WindowTimelines, window_id: WindowId) -> Self:
        return cls(timelines, window_id, await timelines.of(window_id))

    def act(self, count: int) -> None:
        for number in range(self.done, self.done + count):
            cause, command = f"id-{number}", f"echo {number}"
            event = {"id": cause, "action": "run", "args": {"command": command}}
            self._timelines.record_action(self._record, self._window_id, event, "agent")
            extras = {"command": command, "metadata": {"exit_code": 0}}
            seen = {"id": f"{cause}-seen", "cause": cause, "observation": "run"}
            self._timelines.record_observation(
                self._window_id, {**seen, "content": f"{number}\n", "extras": extras}
            )
        self.done += count


async def _sign_in(page: Page, address: str) -> dict[str, Any]:
    await page.goto(address)
    await page.get_by_label("Token").fill(TOKEN)
    began = perf_counter()
    await page.get_by_role("button", name="Sign in").click()
    await page.locator(".tally").wait_for()
    drawn = perf_counter() - began
    return {"sign_in_drawn": drawn, "first_paint": await page.evaluate(FIRST_PAINT) / 1000}


async def _scroll(page: Page, frames: int) -> dict[str, Any]:
    found = await page.evaluate(SCROLL, frames)
    times = sorted(found["seen"])
    late = times[int(len(times) * 0.95)]
    return {"frame_p95": late / 1000, "frame_worst": times[-1] / 1000, "rows": found["most"]}


async def _keep_up(page: Page, actor: Actor, pace: int, seconds: float) -> dict[str, Any]:
    await page.evaluate(NOTE_LONG_TASKS)
    before, began = actor.done, perf_counter()
    while (gone := perf_counter() - began) < seconds:
        actor.act(before + int(gone * pace) - actor.done)
        await asyncio.sleep(TICK)
    sent = perf_counter()
    await page.wait_for_function(TALLY, arg=actor.done)
    shown = perf_counter()
    longest = await page.evaluate("() => Math.max(0, ...window.longTasks)")
    return {
        "shown_per_second": (actor.done - before) / (shown - began),
        "lag": shown - sent,
        "longest_task": longest / 1000,
    }


@asynccontextmanager
async def _hub() -> AsyncIterator[tuple[Hub, str]]:
    if not await asyncio.to_thread(is_built):
        raise Refused("the page is not built; scripts/web builds it")
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        settings = HubSettings(admin_token=TOKEN, port=0, state_dir=Path(place))
        async with Hub(settings) as hub:
            token = await hub.tokens.create("window", "window")
            sandbox = SandboxSettings(shells=ShellSettings(working_dir=Path(place)))
            async with FakeWindow(hub.local_url, token, sandbox, name="bench") as window:
                await window.connect()
                yield hub, window.id


@asynccontextmanager
async def _browser() -> AsyncIterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise Refused("there is no Chromium; scripts/browser installs one")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        await browser.close()


if __name__ == "__main__":
    respond(HubPage())
