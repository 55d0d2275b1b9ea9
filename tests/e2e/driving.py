"""What a user does in a window of VS Code, by keys and clicks. All runs on the rig's loop."""

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
    """Wait for a message and take it away, so that the next of its kind is another."""
    toast = page.locator(".notification-toast", has_text=text)
    await toast.hover()
    await toast.locator(".codicon-notifications-clear").click()
    await expect(toast).to_have_count(0)


async def go_to_line(page: Page, line: int) -> None:
    """The caret is at the beginning of that line of the active editor afterwards."""
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
"""What stands after the text of lines, which is none of it."""


async def shows_after(page: Page, wanted: dict[str, str]) -> None:
    """Returns once that is shown after those lines of the active editor, and nothing else is."""
    text = json.dumps([list(each) for each in wanted.items()], separators=(",", ":"))
    frames = "while (shown() !== wanted) await new Promise(requestAnimationFrame);"
    try:
        async with asyncio.timeout(30):
            await page.evaluate(f"async (wanted) => {{ {_SHOWN} {frames} }}", text)
    except TimeoutError:
        seen = await page.evaluate(f"() => {{ {_SHOWN} return shown(); }}")
        raise AssertionError(f"{seen} is shown, not {text}") from None


async def open_question(page: Page, asker: str = "") -> None:
    """Open what somebody asks consent for, by the notice. Its document is shown afterwards."""
    toast = page.locator(".notification-toast", has_text=f"{asker} asks for your consent")
    # The notice of an answered question may take a while to go; each leads to what is open.
    await toast.get_by_text("Show the request").first.click()
    await expect(question(page)).to_contain_text("Asks:")


def question(page: Page) -> Locator:
    """The text of the question that is shown, as far as it is on the screen."""
    return page.locator(".editor-instance[data-mode-id='plaintext'], .editor-instance").filter(
        has=page.locator(".view-line", has_text="Wants to:")
    )


async def answer_question(page: Page, answer: str) -> None:
    """Answer the question that is shown; its document closes."""
    await page.locator(".codelens-decoration").get_by_text(answer, exact=True).click()
    await expect(question(page)).to_have_count(0)


def detached(file: str) -> str:
    """A command that leaves a program behind in a session of its own, with its pid in `file`.

    `setsid` forks when it leads a process group, as every job of an interactive shell does, so `$!`
    is the id of a process that has ended, and perhaps soon that of another program.
    """
    program = f"setsid bash -c 'echo $$ > {file}.new; mv {file}.new {file}; exec sleep 600'"
    return f"nohup {program} > /dev/null 2>&1 & until [ -e {file} ]; do sleep 0.1; done"
