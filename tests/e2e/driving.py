"""Actions of a user in a VS Code window, with keys and clicks. They run on the rig's loop."""

from __future__ import annotations

import asyncio
import json

from playwright.async_api import Locator, Page, expect


async def run_command(page: Page, name: str) -> None:
    await page.keyboard.press("F1")
    box = page.locator(".quick-input-widget")
    await box.locator("input").first.fill(f">{name}")
    await box.get_by_role("option", name=name).first.click()


async def click_toast(page: Page, text: str, button: str) -> None:
    toast = page.locator(".notification-toast", has_text=text)
    await toast.get_by_role("button", name=button, exact=True).click()


async def clear_toast(page: Page, text: str) -> None:
    """Wait for a notification and dismiss it, so that a later one with the same text is new."""
    toast = page.locator(".notification-toast", has_text=text)
    await toast.hover()
    await toast.locator(".codicon-notifications-clear").click()
    await expect(toast).to_have_count(0)


async def discard_changes(page: Page) -> None:
    """Wait for VS Code's question whether to save, and answer "Don't Save"."""
    dialog = page.locator(".monaco-dialog-box")
    await dialog.get_by_role("button", name="Don't Save").click(timeout=0)


async def go_to_line(page: Page, line: int) -> None:
    """Move the caret to the beginning of a line of the active editor."""
    await page.keyboard.press("Control+g")
    box = page.locator(".quick-input-widget")
    await box.locator("input").first.fill(f":{line}")
    await page.keyboard.press("Enter")
    await expect(page.locator("#status\\.editor\\.selection")).to_contain_text(f"Ln {line},")


_SHOWN = """
const shown = () => JSON.stringify([...document.querySelectorAll(".editor-instance .view-line")]
  .sort((one, other) => one.offsetTop - other.offsetTop)
  .flatMap((line) => [...line.querySelectorAll("span")]
    .map((span) => getComputedStyle(span, "::after").content)
    .filter((content) => content.startsWith('"'))
    .map((content) => [line.textContent.replaceAll("\\u00a0", " ").trim(), JSON.parse(content)])));
"""
"""JavaScript: the decorations after the text of lines."""


async def shows_after(page: Page, wanted: dict[str, str]) -> None:
    """Wait until exactly these decorations are shown, by line, in the active editor."""
    text = json.dumps([list(each) for each in wanted.items()], separators=(",", ":"))
    frames = "while (shown() !== wanted) await new Promise(requestAnimationFrame);"
    try:
        async with asyncio.timeout(30):
            await page.evaluate(f"async (wanted) => {{ {_SHOWN} {frames} }}", text)
    except TimeoutError:
        seen = await page.evaluate(f"() => {{ {_SHOWN} return shown(); }}")
        raise AssertionError(f"{seen} is shown, not {text}") from None


async def open_question(page: Page, asker: str = "") -> None:
    """Open a consent request with its notification, and wait until its document is shown."""
    toast = page.locator(".notification-toast", has_text=f"{asker} asks for your consent")
    # The notification of an answered request may stay for a while. Each one opens the request that
    # is still open, so click the first.
    await toast.get_by_text("Show the request").first.click()
    await expect(question(page)).to_contain_text("Asks:")


def question(page: Page) -> Locator:
    """The visible text of the consent request that is shown."""
    return page.locator(".editor-instance[data-mode-id='plaintext'], .editor-instance").filter(
        has=page.locator(".view-line", has_text="Wants to:")
    )


async def answer_question(page: Page, answer: str) -> None:
    """Answer the consent request that is shown, and wait until its document closes."""
    await page.locator(".codelens-decoration").get_by_text(answer, exact=True).click()
    await expect(question(page)).to_have_count(0)


def detached(file: str) -> str:
    """A command that starts a program in a new session (setsid) and writes its pid to `file`.

    `setsid` forks if it leads a process group, as every job of an interactive shell does. So `$!`
    is the id of a process that has already ended, and another program may soon get the same id.
    """
    program = f"setsid bash -c 'echo $$ > {file}.new; mv {file}.new {file}; exec sleep 600'"
    return f"nohup {program} > /dev/null 2>&1 & until [ -e {file} ]; do sleep 0.1; done"
