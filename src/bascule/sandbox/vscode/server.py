"""One VS Code server, for one person and any number of browser windows."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import secrets
import shutil
import signal
import socket
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bascule.core.contracts import Startable
from bascule.core.errors import SandboxStartFailed
from bascule.sandbox.shell.keeper import Keeper
from bascule.sandbox.supervised_program import SupervisedProgram

from .installation import Installation
from .preferences import Preferences, write_preferences
from .sign_in_redirect import SignInRedirect

_START_TIMEOUT: Final = 60.0
"""Timeout in seconds for the start; a busy machine is slow."""
_STOP_TIMEOUT: Final = 3.0
"""Seconds that the server has to exit after SIGTERM."""
_RECONNECT_TIMEOUT: Final = 900
"""Seconds for which the extension host waits for a browser whose connection was lost. VS Code's
default is three hours, during which the host of a window that never returns uses 200 MB."""
_LISTENING: Final = r"HTTP server listening on (http://127\.0\.0\.1:\d+|/\S+)"
_REMOVED_PREFIXES: Final = ("VSCODE_", "ELECTRON_", "CODE_SERVER_")
_REMOVED_NAMES: Final = frozenset({"NODE_OPTIONS", "PASSWORD", "HASHED_PASSWORD", "PORT"})
"""Variables that would make code-server act as a part of another VS Code, or change its flags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VSCodeSettings:
    """Settings of a VS Code server."""

    data: Path
    """Data directory: settings, extensions, session key and port. Kept between starts, so browsers
    find the server again. Only one server may use it."""
    extension: Path | None = None
    """Bascule's extension (`.vsix`), to be installed in `data`."""
    shared_extensions: Path | None = None
    """Directory of built-in extensions for all servers; replaces VS Code's own."""
    socket: Path | None = None
    """Unix socket to listen on without sign-in; access to the socket has to be controlled outside.
    None: listen on loopback, with a key in the address."""
    folder: Path | None = None
    """Folder to open if a browser names none."""
    idle_timeout: int = 0
    """Seconds without a browser after which the server exits; more than 60. 0: never."""
    hub: str = ""
    """URL of the hub to which windows connect automatically; empty: none."""
    token: str = field(default="", repr=False)
    """Token of scope `window` for `hub`."""
    user: Preferences = field(default_factory=dict)
    machine: Preferences = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment of the server and of its terminals."""


class VSCodeServer(Startable):
    """Serves from `start` until `aclose`. If this process is killed, a keeper ends the server.

    The server listens on loopback and admits browsers that have its `address`, or on a unix socket
    and admits everybody who can connect. The extension host of a window starts when a browser opens
    the window, and ends when the browser leaves.
    """

    def __init__(self, installation: Installation, settings: VSCodeSettings) -> None:
        self._installation = installation
        self._settings = settings
        self._lock = -1
        self._run: Path | None = None
        self._keeper: Keeper | None = None
        self._program: SupervisedProgram | None = None
        self._sign_in: SignInRedirect | None = None
        self.url = ""

    async def start(self) -> None:
        """Start the server. Raises `MissingTool` if VS Code is not installed, and
        `SandboxStartFailed` if the server does not start."""
        await asyncio.to_thread(self._installation.ensure_complete)
        run = await asyncio.to_thread(self._prepare)
        self._keeper = Keeper(directory=run)
        if self._settings.extension is not None:
            await self._install_extension(self._settings.extension)
        self._program = await self._spawn(*await asyncio.to_thread(self._flags))
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                self.url = (await self._program.wait_for_output(_LISTENING))[1]
        except (TimeoutError, EOFError):
            output = self._program.output_tail()
            raise SandboxStartFailed(f"VS Code did not start: {output}") from None
        if self._settings.socket is None:
            await asyncio.to_thread(self._remember_port)
            self._sign_in = SignInRedirect(self.url, cookie=self._cookie, value=self._session_key)
            await self._sign_in.start()

    @property
    def pid(self) -> int:
        assert self._program is not None
        return self._program.pid

    @property
    def keeper_pid(self) -> int:
        """PID of the keeper, the ancestor of all processes of the server."""
        assert self._keeper is not None
        return self._keeper.pid

    async def wait_ended(self) -> None:
        """Wait until the server has ended for any reason."""
        assert self._program is not None
        await asyncio.shield(self._program.ended)

    def address(self, folder: Path) -> str:
        """Return the URL for a window on the folder. The URL contains a key, so keep it secret."""
        assert self._sign_in is not None
        return self._sign_in.address(folder)

    async def aclose(self) -> None:
        if self._sign_in is not None:
            await self._sign_in.aclose()
        if self._program is not None:
            await self._leave_room(self._program)
        if self._keeper is not None:
            await self._keeper.aclose()
        await asyncio.to_thread(self._release)

    # Preparation --------------------------------------------------------------------------

    def _prepare(self) -> Path:
        data = self._settings.data
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise SandboxStartFailed(f"VS Code runs already with the data in {data}") from error
        self._session_key = _stored_secret(data / "session-key")
        self._run = Path(tempfile.mkdtemp(prefix="bascule-vscode-"))
        config = f"auth: password\nhashed-password: {self._session_key}\n"
        if self._settings.socket is not None:
            config = "auth: none\n"
        _write_secret(data / "config.yaml", config)
        write_preferences(data, user=self._settings.user, machine=self._connection(self._run))
        return self._run

    def _connection(self, run: Path) -> Preferences:
        """Return the settings with which a window connects to its hub."""
        settings = dict(self._settings.machine)
        if self._settings.hub:
            token = run / "token"
            _write_secret(token, self._settings.token)
            settings["bascule.hub"] = self._settings.hub
            settings["bascule.tokenFile"] = str(token)
            settings["bascule.autoConnect"] = True
        return settings

    @property
    def _cookie(self) -> str:
        return f"code-server-session-{self._suffix}"

    @property
    def _suffix(self) -> str:
        """Suffix of the cookie's name. Cookies apply to all ports of a host, so each server needs
        its own name."""
        return hashlib.sha256(str(self._settings.data).encode()).hexdigest()[:8]

    async def _install_extension(self, extension: Path) -> None:
        stamp = self._settings.data / "extensions/.bascule"
        fingerprint = await asyncio.to_thread(_fingerprint, extension)
        if await asyncio.to_thread(_text_of, stamp) == fingerprint:
            return
        program = await self._spawn("--install-extension", str(extension), "--force")
        status = await program.ended
        output = program.output_tail()
        await program.aclose()
        if status != 0:
            raise SandboxStartFailed(f"The extension could not be installed: {output}")
        await asyncio.to_thread(stamp.write_text, fingerprint)

    def _flags(self) -> tuple[str, ...]:
        settings = self._settings
        flags = ["--disable-proxy"]
        if settings.socket is not None:
            flags += [f"--socket={settings.socket}", "--socket-mode=660"]
            flags.append(f"--reconnection-grace-time={_RECONNECT_TIMEOUT}")
        else:
            port = _free_again(_text_of(settings.data / "port"))
            flags += [f"--bind-addr=127.0.0.1:{port}", f"--cookie-suffix={self._suffix}"]
        if settings.idle_timeout:
            flags.append(f"--idle-timeout-seconds={settings.idle_timeout}")
        if settings.folder is not None:
            flags += ["--ignore-last-opened", str(settings.folder)]
        return tuple(flags)

    # Running ------------------------------------------------------------------------------

    async def _spawn(self, *arguments: str) -> SupervisedProgram:
        assert self._keeper is not None
        data = self._settings.data
        program = SupervisedProgram(self._keeper)
        shared = self._settings.shared_extensions
        argv = (
            *self._installation.command,
            f"--user-data-dir={data}",
            f"--extensions-dir={data / 'extensions'}",
            *((f"--builtin-extensions-dir={shared}",) if shared else ()),
            f"--config={data / 'config.yaml'}",
            "--disable-telemetry",
            "--disable-update-check",
            "--disable-getting-started-override",
            *arguments,
        )
        await program.start(argv, env=self._environment(), cwd=data)
        return program

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in self._settings.environment.items()
            if name not in _REMOVED_NAMES and not name.startswith(_REMOVED_PREFIXES)
        }
        # VSCODE_CLI: do not start a login shell first to read its environment, which takes seconds.
        # XDG_RUNTIME_DIR: unless set already, sockets go to a directory that we remove.
        return {"XDG_RUNTIME_DIR": str(self._run), **kept, "VSCODE_CLI": "1"}

    async def _leave_room(self, program: SupervisedProgram) -> None:
        with suppress(ProcessLookupError, TimeoutError):
            if program.pid and not program.ended.done():
                os.kill(program.pid, signal.SIGTERM)
                async with asyncio.timeout(_STOP_TIMEOUT):
                    await asyncio.shield(program.ended)
        await program.aclose()

    def _remember_port(self) -> None:
        """Save the port for the next start. Browsers store data of a window by its address."""
        (self._settings.data / "port").write_text(self.url.rpartition(":")[2])

    def _release(self) -> None:
        if self._settings.socket is not None and self.url:
            self._settings.socket.unlink(missing_ok=True)
        if self._run is not None:
            shutil.rmtree(self._run, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _stored_secret(file: Path) -> str:
    """Return the secret in the file; create the file if it is missing. With the same secret,
    browsers stay signed in after a restart."""
    known = _text_of(file)
    if not known:
        known = secrets.token_hex(32)
        _write_secret(file, known)
    return known


def _write_secret(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)


def _text_of(file: Path) -> str:
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        return ""


def _fingerprint(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _free_again(port: str) -> int:
    """Return the port if it is free, otherwise 0 (any port)."""
    if not port.isdecimal():
        return 0
    with suppress(OSError, OverflowError), socket.create_server(("127.0.0.1", int(port))):
        return int(port)
    return 0
