"""Where a command finds its hub: an address and a token."""

from __future__ import annotations

import fcntl
import os
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

HubUrl = Annotated[
    str | None,
    typer.Option(
        "--hub",
        envvar="BASCULE_HUB",
        help="Address of the hub; by default the one started last on this machine.",
    ),
]

_ADDRESS = "hub-address"
_LOCK = "hub.lock"
_TOKEN = "admin-token"  # noqa: S105 - a file's name


@dataclass(frozen=True, slots=True)
class HubPlace:
    """A hub that runs somewhere, and what it lets us in with."""

    url: str
    token: str = field(repr=False)

    @contextmanager
    def told_how_to_start(self) -> Iterator[None]:
        """While open, a hub that is not there is told with how to have one, or to name another."""
        try:
            yield
        except HubUnreachable as error:
            if not is_this_machine(self.url):
                way_out = "is the address right? (--hub, or BASCULE_HUB)"
                raise HubUnreachable(f"{error.message}; {way_out}", url=self.url) from error
            raise HubUnreachable(
                f"No hub answers at {self.url}; `bascule up` starts one with a VS Code, "
                f"`bascule serve` one by itself",
                url=self.url,
            ) from error


def find_hub(url: str | None) -> HubPlace:
    """The hub at `url`, or this machine's; its token from BASCULE_TOKEN, or this machine's.

    The token of this machine's hub goes to no other: an address is quickly mistyped.
    """
    home = _home()
    announced_at = _text_of(home.state / _ADDRESS)
    address = with_scheme(url) if url else announced_at or f"http://127.0.0.1:{home.port}"
    own = (announced_at, home.public_url.rstrip("/"))
    is_ours = is_this_machine(address) or address.rstrip("/") in own
    token = os.environ.get("BASCULE_TOKEN") or (_text_of(home.state / _TOKEN) if is_ours else "")
    if not token and not is_ours:
        raise InvalidSetting(
            f"There is no token for the hub at {address}: set BASCULE_TOKEN to one that its owner "
            "made for you (`bascule token --create NAME`)"
        )
    if not token and not url:
        raise InvalidSetting(
            "No hub has been started here yet: `bascule up` starts one with a VS Code, `bascule "
            "serve` one by itself; BASCULE_HUB and BASCULE_TOKEN name one elsewhere"
        )
    if not token:
        raise InvalidSetting(
            f"There is no token for the hub at {address}: set BASCULE_TOKEN, or start a hub here "
            "(`bascule up`)"
        )
    return HubPlace(address, token)


@dataclass(frozen=True, slots=True)
class _Home:
    """What the settings of this machine's hub say to those who only look for it."""

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


class HubRuns(InvalidSetting):
    """A hub has this state already; two would end each other's sessions."""

    def __init__(self, state: Path, url: str) -> None:
        where = f", and answers at {url}" if url else ""
        super().__init__(
            f"A hub keeps its state in {state} already{where}; the setting `state_dir` gives this "
            "one another place"
        )
        self.url = url


@contextmanager
def alone(state: Path) -> Iterator[None]:
    """While open, no other hub has that state. Raises `HubRuns`."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (state / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HubRuns(state, _text_of(state / _ADDRESS)) from None
        yield


@contextmanager
def announced(state: Path, url: str) -> Iterator[None]:
    """While open, commands of this user find the hub by themselves."""
    file = state / _ADDRESS
    file.write_text(url + "\n")
    try:
        yield
    finally:
        if _text_of(file) == url:  # else another hub was started since
            file.unlink(missing_ok=True)


def _text_of(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
