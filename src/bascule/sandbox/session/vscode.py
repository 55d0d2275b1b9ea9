"""The VS Code server of a session: started on request, stopped when unused."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import secrets
import shutil
import sys
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from bascule.core.contracts import Closable
from bascule.core.errors import NotSupported, SandboxStartFailed
from bascule.sandbox.browser.settings import CHROMIUMS
from bascule.sandbox.vscode.installation import Installation
from bascule.sandbox.vscode.server import VSCodeServer, VSCodeSettings

from .editor_socket import SOCKET as EDITOR_SOCKET
from .editor_socket import Answer, EditorSocket
from .headless_window import HeadlessWindow
from .launch import CHECKPOINT_BYTES, SandboxLaunch
from .processes import SessionProcesses
from .session_events import SessionEvents
from .tunnel import Forwarder, LoopbackPort, to_unix

logger = logging.getLogger(__name__)

SOCKET: Final = "vscode.sock"
IDLE: Final = 1800
"""Default of `idle_timeout`, in seconds."""
_NO_TOKEN: Final = "known-by-its-socket"  # noqa: S105
"""Placeholder token: windows need one to connect, but the hub identifies them by the session's
socket."""
_RESTART_PAUSES: Final = (0.0, 1.0, 5.0, 30.0, 120.0)
"""Seconds to wait before VS Code with a headless window is restarted: first after the crash, then
after each failed restart. The last value is used for all further restarts."""
_USER_SETTINGS: Final[Mapping[str, Any]] = {
    # Everybody with access to a session may run anything in it, so trust prompts do not help.
    "security.workspace.trust.enabled": False,
    # Keep unsaved text when VS Code or the session ends, and show it again.
    "files.hotExit": "onExitAndWindowClose",
}
_CONNECTED: Final = b"03"
"""State of a connected socket in /proc/net/unix."""
_CONSENT: Final[Mapping[str, str]] = {
    # The agent may run the same actions here as through the sandbox's own server.
    "*": "allow",
}


class SessionVSCode(Closable):
    """Runs at most one VS Code server.

    The server ends when no browser has used it for `idle_timeout` seconds. A server with a headless
    window runs until `stop`, and is restarted after a crash.
    """

    def __init__(
        self,
        launch: SandboxLaunch,
        *,
        environment: Mapping[str, str],
        keystrokes: Path,
        loopback_ports: tuple[LoopbackPort, LoopbackPort],
        processes: SessionProcesses,
        events: SessionEvents,
        ports: Answer,
    ) -> None:
        """`keystrokes`: file that VS Code windows touch when somebody types. `loopback_ports`: the
        port on which windows reach the hub, and the port on which the headless window reaches VS
        Code. `ports`: the ports of the session's programs, for VS Code's extension."""
        self._launch = launch
        self._environment = environment
        self._keystrokes = keystrokes
        self._processes = processes
        self._to_hub, self._to_vscode = loopback_ports
        self._events = events
        self._editor_socket = EditorSocket(
            Path(launch.run_dir, EDITOR_SOCKET),
            {"ports": ports, "screenshot": self._screenshot},
        )
        self._socket = Path(launch.run_dir, SOCKET)
        self._turn = asyncio.Lock()
        self._server: VSCodeServer | None = None
        self._tab: HeadlessWindow | None = None
        self._held = AsyncExitStack()
        self._watching: asyncio.Task[None] | None = None
        self._order = "", IDLE

    @property
    def is_running(self) -> bool:
        return self._server is not None

    async def start(
        self, *, token: str, headless_window: bool, idle_timeout: int = IDLE
    ) -> dict[str, Any]:
        """Start VS Code if it is not running. `headless_window`: also open a headless window.

        Raises `NotSupported` if VS Code, or Chromium for a headless window, is not installed.
        Raises `SandboxStartFailed` if VS Code does not start.
        """
        async with self._turn:
            if self._server is None:
                await self._open(token or _NO_TOKEN, idle_timeout)
            if headless_window and self._tab is None:
                await self._open_tab()
            self._order = token, idle_timeout
            return await self.status()

    async def stop(self) -> None:
        """Stop VS Code. Unsaved text is kept and shown after the next start."""
        async with self._turn:
            await self._close()

    async def status(self) -> dict[str, Any]:
        server = self._server
        return {
            "running": server is not None,
            "socket": SOCKET,
            "pid": None if server is None else server.pid,
            "last_activity": await asyncio.to_thread(self._last_activity),
            "clients": await asyncio.to_thread(_connections, self._socket) if server else 0,
            "window": self._tab is not None,
            "folder": self._launch.working_dir,
        }

    def _last_activity(self) -> float | None:
        """Time at which a browser was last connected (to the minute), or somebody typed."""
        home = self._environment["HOME"]
        data = self._environment.get("XDG_DATA_HOME") or f"{home}/.local/share"
        beat = Path(data, "code-server/heartbeat")
        files = [file for file in (beat, self._keystrokes) if file.exists()]
        return max((file.stat().st_mtime for file in files), default=None)

    async def aclose(self) -> None:
        await self.stop()

    async def _open(self, token: str, idle_timeout: int) -> None:
        if not self._launch.vscode:
            raise NotSupported("This session has no VS Code: none is installed where it runs")
        async with AsyncExitStack() as held:
            hub = await self._forward_hub(held) if self._launch.hub_socket else ""
            held.push_async_callback(self._editor_socket.aclose)
            await self._editor_socket.start()
            identity = await asyncio.to_thread(_identity, Path(self._launch.state_dir))
            settings = self._settings(hub, token, idle_timeout, identity)
            server = VSCodeServer(Installation(Path(self._launch.vscode)), settings)
            await held.enter_async_context(server)
            held.callback(self._processes.hide(server.keeper_pid, below=self._launch.vscode))
            self._held = held.pop_all()
        self._server = server
        self._watching = asyncio.get_running_loop().create_task(self._watch(server))
        self._events.publish("vscode.started", pid=server.pid)

    def _settings(self, hub: str, token: str, idle_timeout: int, identity: Path) -> VSCodeSettings:
        extensions = self._launch.vscode_extensions
        command_consent = {"run": "ask"} if self._launch.window_asks else {}
        return VSCodeSettings(
            data=Path(self._launch.state_dir, "vscode"),
            shared_extensions=Path(extensions) if extensions else None,
            socket=self._socket,
            folder=Path(self._launch.working_dir),
            idle_timeout=idle_timeout,
            hub=hub,
            token=token,
            user=_USER_SETTINGS,
            machine={
                "bascule.consent": {**_CONSENT, **command_consent},
                "bascule.identityFile": str(identity),
                "bascule.python": sys.executable,
                "bascule.keystrokeFile": str(self._keystrokes),
                "bascule.sessionSocket": str(Path(self._launch.run_dir, EDITOR_SOCKET)),
                # Actions in the window and in the sandbox share one store.
                "bascule.checkpoints.enabled": self._launch.checkpoints,
                "bascule.checkpoints.directory": str(self._launch.checkpoint_store or ""),
                "bascule.checkpoints.storeLimit": CHECKPOINT_BYTES,
            },
            environment=self._environment,
        )

    async def _forward_hub(self, held: AsyncExitStack) -> str:
        """Forward a loopback port to the session's hub socket; return its URL for the window."""
        listening = await asyncio.to_thread(self._to_hub.listen)
        forwarder = Forwarder(listening, to_unix(Path(self._launch.hub_socket)))
        await held.enter_async_context(forwarder)
        await forwarder.start()
        return f"http://127.0.0.1:{self._to_hub.port}"

    async def _open_tab(self) -> None:
        chromium = await asyncio.to_thread(_find_chromium, self._environment.get("PATH", ""))
        if chromium is None:
            raise NotSupported("A headless window needs Chromium, which is not installed here")
        tab = HeadlessWindow(
            chromium,
            loopback=self._to_vscode,
            vscode=self._socket,
            folder=Path(self._launch.working_dir),
            directory=Path(self._launch.state_dir, "window"),
            environment=self._environment,
        )
        self._held.push_async_callback(tab.aclose)
        self._tab = tab
        await tab.start(self._processes.hide)

    async def _screenshot(self) -> dict[str, Any]:
        if self._tab is None:
            raise NotSupported(
                "This session has no headless window; create it with `runtime: vscode`"
            )
        return {"png": await self._tab.screenshot()}

    async def _watch(self, server: VSCodeServer) -> None:
        """Wait until the server ends without `stop`, because it was idle or crashed; clean up."""
        await server.wait_ended()
        async with self._turn:
            self._watching = None
            if self._server is server:
                is_needed = self._tab is not None
                await self._close()
                if is_needed:
                    loop = asyncio.get_running_loop()
                    self._watching = loop.create_task(self._open_again())

    async def _open_again(self) -> None:
        """Restart VS Code with its headless window after a crash."""
        token, idle_timeout = self._order
        for failures in itertools.count():
            # A pause, not an event: a server that fails repeatedly must not load the machine.
            await asyncio.sleep(_RESTART_PAUSES[min(failures, len(_RESTART_PAUSES) - 1)])
            try:
                await self.start(token=token, headless_window=True, idle_timeout=idle_timeout)
            except SandboxStartFailed as error:
                logger.warning("VS Code does not start again: %s", error.message)
            else:
                return

    async def _close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
            self._watching = None
        server, self._server, self._tab = self._server, None, None
        await self._held.aclose()
        if server is not None:
            self._events.publish("vscode.stopped")


def _identity(state_dir: Path) -> Path:
    """Return the file with the id and key of the session's window; create it if it is missing.

    The id and key are the same in every browser.
    """
    file = state_dir / "window.json"
    if not file.exists():
        identity = {"window_id": str(uuid.uuid4()), "window_key": secrets.token_urlsafe(32)}
        fresh = file.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(identity))
        fresh.replace(file)
    return file


def _find_chromium(path: str) -> str | None:
    return next(filter(None, (shutil.which(name, path=path) for name in CHROMIUMS)), None)


def _connections(path: Path) -> int:
    """Return the number of browser connections, from the kernel's table of unix sockets."""
    own_path = str(path).encode()  # an accepted socket has the path of its listener
    rows = (line.split() for line in Path("/proc/net/unix").read_bytes().splitlines()[1:])
    # Columns: Num RefCount Protocol Flags Type St Inode Path. Sockets without a path have 7.
    states = (row[5] for row in rows if len(row) == 8 and row[7] == own_path)
    return sum(state == _CONNECTED for state in states)
