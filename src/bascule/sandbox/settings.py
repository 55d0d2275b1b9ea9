"""Settings of a sandbox and of its server."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .browser.settings import BrowserSettings
from .ipython.settings import IPythonSettings
from .shell.settings import ShellSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    """How a sandbox does actions."""

    shells: ShellSettings = field(default_factory=ShellSettings)
    browser: BrowserSettings = field(default_factory=BrowserSettings)
    ipython: IPythonSettings = field(default_factory=IPythonSettings)
    roots: tuple[Path, ...] = ()
    """Directories in which files may be read and written. None named: wherever the account may.
    Shells are not held to it; an account, container or namespace is what holds a shell."""
    threads: int = 16
    """File actions that run at the same time; more of them wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where the action server listens, whom it answers, and how much it takes."""

    key: str = field(repr=False)
    """Every request but `/alive` and `/server_info` has to bring it. There is no start without."""
    host: str = "127.0.0.1"
    port: int = 0
    """0: any free one; the server's `url` tells which."""
    allowed_hosts: tuple[str, ...] = ()
    """Names of this server in a `Host` header, besides loopback's and `host` itself; `*`: any.
    A page in somebody's browser that makes its own name point here is not among them."""
    allowed_origins: tuple[str, ...] = ()
    """Web pages that may call; none by default, since browsers have no business here."""
    max_message: int = 64 << 20
    """Bytes of a request other than an upload."""
    max_upload: int = 8 << 30
    max_head: int = 64 << 10
    request_timeout: float = 20.0
    """Seconds in which a request that was begun has to bring more of itself."""
    keep_alive: float = 75.0
    """Seconds an idle connection is kept; longer than clients keep theirs."""
    stream_lag: int = 8 << 20
    """Bytes a follower of output may be behind; past that it is told what it missed and goes on."""
    stop_grace: float = 5.0
    """Seconds that answers under way are given when the server stops."""
