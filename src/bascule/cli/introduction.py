"""What a person is told when everything runs: where it is and what to do next."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .workbench import Workbench


class Introduction:
    """Collects the facts and shows them once, on stderr: stdout is for what commands print."""

    def __init__(self, workspace: Path, *, sandbox_url: str, key: str) -> None:
        self._facts = [("workspace", str(workspace), "")]
        self._sandbox = ("sandbox", sandbox_url, f"key {key}")
        example = f"{ourselves()} exec --url {sandbox_url} 'ls -la'"
        self._hints = [
            ("a command from elsewhere", f"SESSION_API_KEY={shlex.quote(key)} {example}")
        ]

    def tell_of(self, bench: Workbench, *, open_browser: bool) -> None:
        """The hub and VS Code; opens a browser on the latter where there is one to open."""
        token = f"its token: {ourselves()} token"
        if bench.address:
            opened = open_browser and show_in_browser(bench.address)
            note = "opened in your browser" if opened else "open this in a browser"
            if not bench.is_trusted:
                note += "; trust the folder there before an agent acts"
            self._facts += [("VS Code", bench.address, note), ("hub", bench.hub_url, token)]
            self._hints.insert(
                0, ("see an agent at work in it, from here or elsewhere", f"{ourselves()} demo")
            )
        else:
            self._facts += [("VS Code", bench.complaint, ""), ("hub", bench.hub_url, token)]
        self._hints.insert(1, ("connect your own VS Code", f"{ourselves()} pair"))

    def show(self) -> None:
        """Lines are not wrapped, so that addresses can be copied."""
        from rich.console import Console
        from rich.text import Text

        console = Console(stderr=True, highlight=False)
        console.print(Text("bascule", style="bold"))
        for name, value, note in (*self._facts, self._sandbox):
            line = Text.assemble((f"  {name:<10} ", "dim"), (value, "bold"))
            line.append(f"  {note}" if note else "", "dim")
            console.print(line, soft_wrap=True)
        for purpose, command in self._hints:
            console.print(Text(f"  {purpose}:", style="dim"))
            console.print(Text(f"    {command}"), soft_wrap=True)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """While open, a terminal shows what is being waited for."""
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


def ourselves() -> str:
    """How the person who started this can start us again, whatever the directory."""
    if shutil.which("bascule"):
        return "bascule"
    started = Path(sys.argv[0]).absolute()
    if started.name == "bascule":
        return shlex.quote(str(started))
    return f"{shlex.quote(sys.executable)} -m bascule"


def show_in_browser(address: str) -> bool:
    """Open the person's browser, if there is a screen for it or BROWSER names one."""
    if not any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")):
        return False
    # Some browsers return when they are closed; nobody waits for that.
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    return True
