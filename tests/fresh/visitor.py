"""A person at a browser, who opens the address that was printed and does what the page offers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, FrameLocator, Page, expect, sync_playwright

from .diary import Diary

_TIMEOUT: Final = 240_000
"""Milliseconds: events end the waiting, this only ends what hangs."""
_DONE: Final = "from a checkpoint."
_PROBLEM: Final = "Expected comma"
"""What VS Code says when the agent asks it."""
_TOTAL: Final = "14.70"
"""What the demo's program prints when it was mended."""


class Visitor:
    """Looks, presses, and takes a picture of what is there to see."""

    def __init__(self, page: Page, pictures: Path) -> None:
        self.page = page
        self._pictures = pictures
        page.set_default_timeout(_TIMEOUT)
        expect.set_options(timeout=_TIMEOUT)

    def open(self, address: str) -> None:
        """Returns when VS Code on the folder is drawn, our extension in it is connected, and the
        page says what it offers."""
        self.page.goto(address)
        self.editor.locator(".statusbar-item", has_text="Bascule").wait_for()
        expect(self.page.get_by_role("link", name="Start a session")).to_be_visible()

    def ask_for_demo(self) -> None:
        """Returns when the agent has done the first thing."""
        self.page.get_by_role("link", name="Watch a demo").click()
        self.page.get_by_text("The agent writes a program, bill.py").wait_for()

    def watch_demo(self) -> None:
        """Returns when the agent says that it is done and what it made can be seen in VS Code."""
        self.page.get_by_text(_DONE).wait_for()
        expect(self.editor.get_by_role("treeitem", name="bill.py")).to_be_visible()
        expect(self.editor.get_by_role("tab", name="bill.py").first).to_be_visible()
        for words in (_PROBLEM, _TOTAL):
            expect(self.page.get_by_text(words).first).to_be_visible()

    @property
    def is_done(self) -> bool:
        return self.page.get_by_text(_DONE).is_visible()

    def take_picture(self, name: str) -> None:
        self._pictures.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=self._pictures / f"{name}.png")

    @property
    def editor(self) -> FrameLocator:
        return self.page.frame_locator("iframe")


@contextmanager
def visitor(pictures: Path, *, size: tuple[int, int] = (1440, 900)) -> Iterator[Visitor]:
    """With a browser that nobody has used."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=Path(__file__).parents[1] / "chromium",
            args=["--no-sandbox", "--disable-gpu"],
        )
        yield Visitor(_page(browser, *size), pictures)
        browser.close()


def _page(browser: Browser, width: int, height: int) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark", reduced_motion="reduce"
    )
    return context.new_page()


def follow_the_page(page: Visitor, address: str, diary: Diary) -> None:
    """From the address to the end of the demo."""
    with diary.step("open the address", "VS Code on the folder, and buttons"):
        page.open(address)
    page.take_picture("page")
    with diary.step('press "Watch a demo"', "a session, its VS Code, the agent's first file"):
        page.ask_for_demo()
    with diary.step(
        "watch", "the agent writes, runs, reads errors, fixes and runs again, in VS Code"
    ):
        page.watch_demo()
    page.take_picture("demo")
