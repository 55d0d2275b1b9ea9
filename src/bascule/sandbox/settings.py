"""Settings of a sandbox and of its server."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .browser.settings import BrowserSettings
from .ipython.settings import IPythonSettings
from .shell.settings import ShellSettings

if TYPE_CHECKING:
    from .command_rules import CommandRules  # loads the parser of commands, which few need


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    """How a sandbox executes actions."""

    shells: ShellSettings = field(default_factory=ShellSettings)
    browser: BrowserSettings = field(default_factory=BrowserSettings)
    ipython: IPythonSettings = field(default_factory=IPythonSettings)
    roots: tuple[Path, ...] = ()
    """Directories that file actions may read and write. Empty: everything the account may access.
    Does not limit shells; use an account, container or namespace for that."""
    checkpoints: Path | None = None
    """Directory of the checkpoint store, outside of the working directory. None: actions are not
    recorded."""
    checkpoint_bytes: int = 4 << 30
    """Maximum size of the checkpoint store. The oldest checkpoints are removed to stay below it."""
    language_servers: bool = True
    """Whether language actions may start the language servers that are on the PATH of shells."""
    threads: int = 16
    """Maximum number of concurrent file actions; further ones wait."""
    rules: CommandRules | None = None
    """Rules that decide which commands run. None: every command runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Address, access rules, limits and timeouts of the action server."""

    key: str = field(repr=False)
    """Required in every request except `/alive` and `/server_info`. The server does not start
    without a key."""
    host: str = "127.0.0.1"
    port: int = 0
    """0: any free port; the server's `url` holds the chosen one."""
    allowed_hosts: tuple[str, ...] = ()
    """Allowed values of the `Host` header, besides loopback and `host` itself; `*` allows any.
    The check protects against DNS rebinding by web pages."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may call the server; none by default."""
    max_message: int = 64 << 20
    """Maximum body in bytes of a request other than an upload."""
    max_upload: int = 8 << 30
    max_head: int = 64 << 10
    request_timeout: float = 20.0
    """Seconds in which a whole request head, or the next piece of a body, has to arrive."""
    keep_alive: float = 75.0
    """Seconds before the server closes an idle connection; longer than clients keep theirs."""
    stream_lag: int = 8 << 20
    """Bytes of output buffered for a slow client; beyond that the client gets the dropped range."""
    stop_grace: float = 5.0
    """Seconds that running requests have to finish when the server stops."""
