"""Finds the hub of a command: its address and a token."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from bascule.core.errors import HubUnreachable, InvalidSetting

from .address import with_scheme
from .defaults import DEFAULT_FILE, DEFAULT_PORT
from .hub_state import RunningHub, running_hubs, text_of
from .signatures import CommandOption

HubUrl = Annotated[
    str | None,
    CommandOption(
        "--hub",
        envvar="BASCULE_HUB",
        help="Address of the hub. [default: the hub started last on this machine]",
    ),
]

_TOKEN = "admin-token"  # noqa: S105 - a file's name


@dataclass(frozen=True, slots=True)
class HubTarget:
    """A hub's address and a token for it."""

    url: str
    token: str = field(repr=False)
    running: RunningHub | None = None
    """Set if it is a running hub of this user on this machine."""

    def __str__(self) -> str:
        return str(self.running or self.url)

    @contextmanager
    def explaining_unreachable_hub(self) -> Iterator[None]:
        """Add advice to `HubUnreachable` errors: how to start a hub, or to check the address."""
        try:
            yield
        except HubUnreachable as error:
            if not is_this_machine(self.url):
                advice = "check the address (--hub or BASCULE_HUB)"
                raise HubUnreachable(f"{error.message}; {advice}", url=self.url) from error
            raise HubUnreachable(
                f"no hub answers at {self.url}; start one with `bascule up` (with VS "
                "Code) or `bascule serve`",
                url=self.url,
            ) from error


def find_hub(url: str | None) -> HubTarget:
    """The hub at `url`, or the last started hub on this machine. The token is BASCULE_TOKEN, or
    that of this machine's hub.

    This machine's token is never sent to another hub, for example after a mistyped address.
    """
    home = _home()
    running = running_hubs(home.state)
    if url:
        address = with_scheme(url)
    else:
        address = running[0].url if running else f"http://127.0.0.1:{home.port}"
    known_hub = next((each for each in running if each.url == address.rstrip("/")), None)
    is_ours = (
        known_hub is not None
        or is_this_machine(address)
        or address.rstrip("/") == home.public_url.rstrip("/")
    )
    token = os.environ.get("BASCULE_TOKEN") or (text_of(home.state / _TOKEN) if is_ours else "")
    if not token and not is_ours:
        raise InvalidSetting(
            f"no token for the hub at {address}: set BASCULE_TOKEN to a token from its "
            "owner (made with `bascule token --create NAME`)"
        )
    if not token and not url:
        raise InvalidSetting(
            "no hub has been started on this machine: start one with `bascule up` (with "
            "VS Code) or `bascule serve`, or set BASCULE_HUB and BASCULE_TOKEN to use another "
            "machine's hub"
        )
    if not token:
        raise InvalidSetting(
            f"no token for the hub at {address}: set BASCULE_TOKEN, or start a hub on "
            "this machine (`bascule up`)"
        )
    return HubTarget(address, token, known_hub)


def use_hub(url: str | None, *, say: bool = False) -> HubTarget:
    """Like `find_hub`. Unless `url` is given, also prints the hub's address to stderr if `say` is
    set or if several hubs run on this machine."""
    target = find_hub(url)
    others = 0 if url or target.running is None else len(running_hubs(_home().state)) - 1
    if others > 0:
        print_note(f"hub: {target} ({others} more running here; choose with --hub)")
    elif say and not url:
        print_note(f"hub: {target}")
    return target


def print_note(text: str) -> None:
    """Print to stderr, since stdout is for results."""
    print(text, file=sys.stderr)  # noqa: T201


@dataclass(frozen=True, slots=True)
class _Home:
    """The settings of this machine's hub that are needed to find it."""

    state: Path
    port: int
    public_url: str


def _home() -> _Home:
    """Read only three environment variables if there is no settings file. This avoids importing
    the library that validates all settings."""
    from .user_dirs import state_dir

    environment = os.environ
    port = environment.get("BASCULE_PORT", str(DEFAULT_PORT))
    if "BASCULE_CONFIG" in environment or DEFAULT_FILE.is_file() or not port.isdecimal():
        from .hub_settings import load

        settings = load(None, environment, {})
        return _Home(settings.state(), settings.port, settings.public_url)
    named = environment.get("BASCULE_STATE_DIR")
    state = Path(named).expanduser().absolute() if named else state_dir()
    return _Home(state, int(port), environment.get("BASCULE_PUBLIC_URL", ""))


def is_this_machine(url: str) -> bool:
    """Whether the host in `url` is a loopback name or address."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
