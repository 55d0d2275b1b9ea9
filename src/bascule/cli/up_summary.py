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

from .terminal import stderr

if TYPE_CHECKING:
    from .up_session import UpSession


class UpSummary:
    """Collects the facts and prints them once, on stderr: stdout is for the output of commands."""

    def __init__(self, workspace: Path) -> None:
        self._facts = [("workspace", str(workspace), "")]
        self._hints: list[tuple[str, str]] = []

    def add_sandbox(self, url: str, key: str) -> None:
        """Add a sandbox without a hub."""
        self._facts.append(("sandbox", url, f"key {key}"))
        command = f"SESSION_API_KEY={shlex.quote(key)} {own_command()} exec --url {url} 'ls -la'"
        self._hints.append(("run a command from another terminal", command))

    def add_session(self, up: UpSession, *, open_browser: bool) -> None:
        """Add the session's address, and open a browser on it if `open_browser` and if possible."""
        session = up.session
        command, named = own_command(), shlex.quote(session.name or session.id)
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
                ("watch a demo agent work in it, from here or another terminal", f"{command} demo"),
                ("sign in another browser", f"{command} session url {named} --sign-in"),
            ]
        self._facts += [
            ("session", session.name or session.id, f"details: {command} session show {named}"),
            ("hub", origin_of(session.vscode_url), f"print its token: {command} token"),
        ]
        self._hints += [
            ("connect your own VS Code", f"{command} pair"),
            ("run a command from another terminal", f"{command} session exec {named} 'ls -la'"),
        ]

    def show(self) -> None:
        """Print the summary without wrapping lines, so that addresses can be copied."""
        terminal = stderr()
        styled = terminal.styled
        terminal.print(styled("bascule", "bold"))
        for name, value, note in self._facts:
            end = styled(f"  {note}", "dim") if note else ""
            terminal.print(f"{styled(f'  {name:<10} ', 'dim')}{styled(value, 'bold')}{end}")
        for purpose, command in self._hints:
            terminal.print(styled(f"  {purpose}:", "dim"))
            terminal.print(f"    {command}")


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def own_command() -> str:
    """The command that starts this program from any directory."""
    if shutil.which("bascule"):
        return "bascule"
    started = Path(sys.argv[0]).absolute()
    if started.name == "bascule":
        return shlex.quote(str(started))
    return f"{shlex.quote(sys.executable)} -m bascule"


def show_in_browser(address: str) -> bool:
    """Open the user's browser, if there is a display or BROWSER is set. Returns whether it was
    opened."""
    if not any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")):
        return False
    try:
        browser = webbrowser.get()
    except webbrowser.Error:  # a display, but no browser
        return False
    if shutil.which(getattr(browser, "name", "")) is None:  # `webbrowser` does not check BROWSER
        return False
    # In a thread: the call to some browsers returns only when the browser is closed.
    threading.Thread(target=browser.open, args=(address,), daemon=True).start()
    return True
