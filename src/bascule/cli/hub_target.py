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

import typer

from bascule.core.errors import HubUnreachable, InvalidSetting

from .address import with_scheme
from .defaults import DEFAULT_FILE, DEFAULT_PORT
from .hub_state import RunningHub, running_hubs, text_of

HubUrl = Annotated[
    str | None,
    typer.Option(
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
    """Set when it is one of this user's hubs on this machine, and runs."""

    def __str__(self) -> str:
        return str(self.running or self.url)

    @contextmanager
    def told_how_to_start(self) -> Iterator[None]:
        """While open, a hub that is not there is told with how to have one, or to name another."""
        try:
            yield
        except HubUnreachable as error:
            if not is_this_machine(self.url):
                way_out = "check the address (--hub or BASCULE_HUB)"
                raise HubUnreachable(f"{error.message}; {way_out}", url=self.url) from error
            raise HubUnreachable(
                f"no hub answers at {self.url}; start one with `bascule up` (with VS "
                "Code) or `bascule serve`",
                url=self.url,
            ) from error


def find_hub(url: str | None) -> HubTarget:
    """The hub at `url`, or the one started last on this machine; its token from BASCULE_TOKEN, or
    this machine's.

    The token of this machine's hub goes to no other: an address is quickly mistyped.
    """
    home = _home()
    running = running_hubs(home.state)
    if url:
        address = with_scheme(url)
    else:
        address = running[0].url if running else f"http://127.0.0.1:{home.port}"
    meant = next((each for each in running if each.url == address.rstrip("/")), None)
    is_ours = (
        meant is not None
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
    return HubTarget(address, token, meant)


def use_hub(url: str | None, *, say: bool = False) -> HubTarget:
    """`find_hub`, and tell a person on stderr which hub that is, unless they named it: if `say`, or
    if several run here."""
    place = find_hub(url)
    others = 0 if url or place.running is None else len(running_hubs(_home().state)) - 1
    if others > 0:
        tell(f"hub: {place} ({others} more running here; choose with --hub)")
    elif say and not url:
        tell(f"hub: {place}")
    return place


def tell(text: str) -> None:
    """Say it on stderr, since stdout is for the answer."""
    print(text, file=sys.stderr)  # noqa: T201


@dataclass(frozen=True, slots=True)
class _Home:
    """The settings of this machine's hub that are needed to find it."""

    state: Path
    port: int
    public_url: str


def _home() -> _Home:
    """Without a settings file three variables say it all, and whoever asks a hub does not wait
    for the library that checks every setting."""
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
    """By its name alone."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
