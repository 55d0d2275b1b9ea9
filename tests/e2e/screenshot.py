"""Takes the picture of an agent at work in a window: `scripts/screenshot FILE`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from bascule.runtime.vscode import VSCodeRuntime

from .rig import EditorWindow, Rig

_BEFORE = '''\
"""Tells the time of day."""

from datetime import datetime


def greeting(now: datetime) -> str:
    return "Good morning"


if __name__ == "__main__":
    print(greeting(datetime(2026, 1, 1, 20)))
'''
_AFTER = """\
    if now.hour < 12:
        return "Good morning"
    return "Good evening" if now.hour >= 18 else "Good day"
"""


async def play(rig: Rig, window: EditorWindow, file: Path) -> None:
    """A short piece of work: run, look, mend, run again; the picture is taken at its end."""
    token = await rig.on(rig.hub.tokens.create("Ann's agent", "agent"))
    path = str(window.folder / "greet.py")
    async with VSCodeRuntime(rig.url, token, window=window.id) as agent:
        await agent.write(path, _BEFORE)
        await agent.run("python3 greet.py")
        await rig.on(show_activity(window))
        old = '    return "Good morning"\n'
        await agent.edit(path, "str_replace", old_str=old, new_str=_AFTER)
        await agent.run("python3 greet.py")
        await rig.on(picture(window, file))


async def show_activity(window: EditorWindow) -> None:
    """Before the edit, whose highlight fades while people and views take their time."""
    await window.page.get_by_role("tab", name="Bascule").first.click()
    await window.page.mouse.move(900, 500)  # or its tooltip stays
    await window.page.get_by_text("write greet.py").first.wait_for()


async def picture(window: EditorWindow, file: Path) -> None:
    await window.page.get_by_text("edit greet.py").first.wait_for()
    await window.page.wait_for_timeout(500)  # the editor fades things in; there is no event for it
    await window.page.screenshot(path=file)


def main(file: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        rig = Rig(Path(directory))
        rig.open()
        try:
            window = rig.wait(rig.open_window(Path(directory) / "greetings"))
            asyncio.run(play(rig, window, file))
        finally:
            rig.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
