"""The summary that `bascule up` prints when the session runs: addresses and next commands."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from .up_session import UpSession


class UpSummary:
    """Collects the facts and prints them once, on stderr: stdout is for the output of commands."""

    def __init__(self, workspace: Path) -> None:
        self._facts = [("workspace", str(workspace), "")]
        self._hints: list[tuple[str, str]] = []

    def add_sandbox(self, url: str, key: str) -> None:
        """One that is by itself."""
        self._facts.append(("sandbox", url, f"key {key}"))
        command = f"SESSION_API_KEY={shlex.quote(key)} {ourselves()} exec --url {url} 'ls -la'"
        self._hints.append(("run a command from another terminal", command))

    def add_session(self, up: UpSession, *, open_browser: bool) -> None:
        """The one address; a browser is opened on it where there is one to open."""
        session = up.session
        us, named = ourselves(), shlex.quote(session.name or session.id)
        if up.address:
            opened = open_browser and show_in_browser(up.own_address)
            note = "opened in your browser" if opened else "open it in a browser; it works once"
            self._facts.insert(0, ("open", up.address, note))
        if up.no_page:
            self._facts.append(("page", up.no_page, ""))
        if up.no_network:
            self._facts.append(("network", "none", up.no_network))
        if up.no_vscode:
            self._facts.append(("VS Code", up.no_vscode, ""))
        else:
            self._hints += [
                ("watch a demo agent work in it, from here or another terminal", f"{us} demo"),
                ("sign in another browser", f"{us} session url {named} --sign-in"),
            ]
        self._facts += [
            ("session", session.name or session.id, f"{us} session show {named}"),
            ("hub", origin_of(session.vscode_url), f"its token: {us} token"),
        ]
        self._hints += [
            ("connect your own VS Code", f"{us} pair"),
            ("run a command from another terminal", f"{us} session exec {named} 'ls -la'"),
        ]

    def show(self) -> None:
        """Lines are not wrapped, so that addresses can be copied."""
        from rich.console import Console
        from rich.text import Text

        console = Console(stderr=True, highlight=False)
        console.print(Text("bascule", style="bold"))
        for name, value, note in self._facts:
            line = Text.assemble((f"  {name:<10} ", "dim"), (value, "bold"))
            line.append(f"  {note}" if note else "", "dim")
            console.print(line, soft_wrap=True)
        for purpose, command in self._hints:
            console.print(Text(f"  {purpose}:", style="dim"))
            console.print(Text(f"    {command}"), soft_wrap=True)


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


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
    try:
        browser = webbrowser.get()
    except webbrowser.Error:  # a screen, and no browser
        return False
    if shutil.which(getattr(browser, "name", "")) is None:  # BROWSER is taken at its word
        return False
    # Some browsers return when they are closed; nobody waits for that.
    threading.Thread(target=browser.open, args=(address,), daemon=True).start()
    return True
