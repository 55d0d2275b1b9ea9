"""The web apps of a session: each listening port gets a number and a unix socket.

Linux has no event for a new listening socket, so we scan for them: soon after something happened in
the session (an action, output, a refused connection), then less and less often. A scan without
changes takes about 150 microseconds; an idle session has one every ten seconds. The end of a
process, and so of its ports, is an event (a pidfd).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from bascule.core.contracts import Closable
from bascule.serving.sockets import unix_listener

from .listening_sockets import ListeningSocket, listening_sockets
from .processes import SessionProcesses, command, holders
from .session_events import SessionEvents
from .tunnel import Forwarder, to_tcp

logger = logging.getLogger(__name__)

_MIN_DELAY: Final = 0.1
"""Shortest interval in seconds between two scans."""
_MAX_DETECTED: Final = 98
"""Maximum number of detected ports. They get the numbers from 0 to 97, because a number has at most
two digits and `DECLARED` are reserved."""
DECLARED: Final = (98, 99)
"""Numbers of ports that are announced before a program listens there, for apps that must know their
path at start (`APP_PORT_1`, `APP_BASE_PATH_1`, `APP_PORT_2`, `APP_BASE_PATH_2`)."""
_DEFAULT_PORTS: Final = (8011, 8012)
_BROWSER_MODULE: Final = "bascule.sandbox.browser.worker"
_KERNEL_COMMANDS: Final = ("/_kernel_main.py -f ", "-m ipykernel_launcher")
"""Parts of the command lines of the sandbox's kernel and of Jupyter's kernels."""
_EPHEMERAL_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(frozen=True, slots=True)
class App:
    """A web app: a port that a program of the session listens on."""

    n: int
    port: int
    pid: int | None
    """None: unknown."""
    command: str
    socket: str
    """Name of its unix socket in the directory of the sandbox's sockets."""


class _OpenApp(NamedTuple):
    app: App
    forwarder: Forwarder
    hosts: frozenset[str]


class AppNumbers:
    """Assigns a number to each port when it is first seen, and keeps the numbers in a file.

    When no number is free, the port that was last seen longest ago loses its number.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[int, int] = {}
        """Numbers by port; the port seen most recently is last."""

    def load(self) -> None:
        with suppress(FileNotFoundError, ValueError):
            kept = json.loads(self._file.read_text())
            self._known = {int(port): int(n) for port, n in kept}

    def declare(self, numbers: Mapping[int, int]) -> None:
        """Assign fixed numbers to ports (`numbers` is by port). The file is saved once for all of
        them, because replacing a file that was just written waits for the disk."""
        taken = set(numbers.values())
        before = list(self._known.items())
        others = {port: n for port, n in before if n not in taken and port not in numbers}
        self._known = others | dict(numbers)
        if list(self._known.items()) != before:
            self._save()

    def port_of(self, n: int) -> int | None:
        return next((port for port, number in self._known.items() if number == n), None)

    def of(self, port: int, *, taken: Sequence[int]) -> int | None:
        """Return the number of a port; None if no number is free. `taken`: ports of open apps,
        which keep their numbers."""
        if port not in self._known:
            n = self._free(taken)
            if n is None:
                return None
            self._known[port] = n
        else:
            self._known[port] = self._known.pop(port)
        self._save()
        return self._known[port]

    def _free(self, taken: Sequence[int]) -> int | None:
        used = set(self._known.values())
        n = next((n for n in range(_MAX_DETECTED) if n not in used), None)
        if n is None:
            unused_ports = [
                port for port, n in self._known.items() if n < _MAX_DETECTED and port not in taken
            ]
            n = self._known.pop(unused_ports[0]) if unused_ports else None
        return n

    def _save(self) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(list(self._known.items())))
        fresh.replace(self._file)


class AppPorts(Closable):
    """Finds apps and makes each reachable on `app{n}.sock`, from `start` until `aclose`."""

    def __init__(
        self,
        run_dir: Path,
        state_dir: Path,
        *,
        processes: SessionProcesses,
        events: SessionEvents,
        is_isolated: bool,
        slowest: Callable[[], float],
    ) -> None:
        """`slowest`: longest interval in seconds between two scans."""
        self._run_dir = run_dir
        self._processes = processes
        self._events = events
        self._is_isolated = is_isolated
        self._slowest = slowest
        self._numbers = AppNumbers(state_dir / "ports.json")
        self._state_dir = state_dir
        self._excluded: set[int] = set()
        self._seen: frozenset[ListeningSocket] = frozenset()
        self._apps: dict[int, _OpenApp] = {}
        """Open apps by port."""
        self._watched: dict[int, int] = {}
        self._delay = _MIN_DELAY
        self._scan_lock = asyncio.Lock()
        self._scan_requested = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    def prepare(self) -> Mapping[str, str]:
        """Return environment variables for the session's programs. Blocks the calling thread."""
        self._state_dir.mkdir(parents=True, exist_ok=True)
        for old_socket in self._run_dir.glob("app*.sock"):
            old_socket.unlink()
        self._numbers.load()
        numbers: dict[int, int] = {}
        for n, default in zip(DECLARED, _DEFAULT_PORTS, strict=True):
            port = self._numbers.port_of(n) or (default if self._is_isolated else _free_port())
            numbers[port] = n
        self._numbers.declare(numbers)
        return {f"APP_PORT_{index}": str(port) for index, port in enumerate(numbers, start=1)}

    async def start(self) -> None:
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    def exclude(self, port: int) -> None:
        """Exclude one of our own ports, which is not an app."""
        self._excluded.add(port)

    def scan_soon(self) -> None:
        """Scan sooner, because something happened and a program may listen soon."""
        if self._delay > 2 * _MIN_DELAY:
            self._delay = _MIN_DELAY
            self._scan_requested.set()

    async def scan(self) -> list[App]:
        """Scan now and return the current apps."""
        async with self._scan_lock:
            found = await asyncio.to_thread(self._find)
            if found is not None:
                await self._change(found)
        return [each.app for each in self._apps.values()]

    def declared(self) -> list[tuple[int, int]]:
        """Return numbers and ports that are announced before a program listens there."""
        found = ((n, self._numbers.port_of(n)) for n in DECLARED)
        return [(n, port) for n, port in found if port is not None]

    def known(self) -> list[dict[str, Any]]:
        """Return the apps found by the last scan."""
        return [asdict(each.app) for each in self._apps.values()]

    async def aclose(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        for port in tuple(self._apps):
            await self._close(port)
        for descriptor in self._watched.values():
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
        self._watched.clear()

    # Watching -----------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            self._scan_requested.clear()
            try:
                await self.scan()
            except Exception:  # the outermost code of a task; the next scan may succeed
                logger.exception("the ports of the session could not be listed")
            with suppress(TimeoutError):
                async with asyncio.timeout(self._delay):
                    await self._scan_requested.wait()
            self._delay = min(self._delay * 2, self._slowest())

    def _find(self) -> Mapping[int, tuple[list[ListeningSocket], int | None]] | None:
        """Return sockets and owner of every port; None if nothing has changed. Runs in a thread."""
        seen = listening_sockets()
        if seen == self._seen:
            return None
        candidates = [each for each in seen if each.port not in self._excluded]
        processes = self._processes.current()
        owners = holders({each.inode for each in candidates}, processes)
        found: dict[int, tuple[list[ListeningSocket], int | None]] = {}
        for each in candidates:
            pid = owners.get(each.inode)
            if pid is None and not self._is_isolated:
                continue  # belongs to another program on this machine
            if pid is not None and self._is_service(pid, each, processes):
                continue
            found.setdefault(each.port, ([], pid))[0].append(each)
        self._seen = seen
        return found

    def _is_service(
        self, pid: int, listening: ListeningSocket, processes: Mapping[int, Any]
    ) -> bool:
        """Whether the socket belongs to the session's own services, which listen on loopback. A
        VS Code extension that serves pages to others listens on every address; it is an app."""
        if self._processes.is_hidden(pid, processes):
            return not listening.is_everywhere
        if any(each in command(pid) for each in _KERNEL_COMMANDS):
            # The kernel's own socket has a random port. A cell may serve pages too.
            return not listening.is_everywhere and _is_ephemeral(listening.port)
        while pid in processes:
            if _BROWSER_MODULE in command(pid):
                return True
            pid = processes[pid].parent
        return False

    async def _change(self, found: Mapping[int, tuple[list[ListeningSocket], int | None]]) -> None:
        for port, open_app in tuple(self._apps.items()):
            sockets, pid = found.get(port, ((), None))
            if (
                frozenset(each.host for each in sockets) != open_app.hosts
                or pid != open_app.app.pid
            ):
                await self._close(port)  # also if another program has taken over the port
        for port in sorted(found.keys() - self._apps.keys()):
            await self._open(port, *found[port])

    async def _open(self, port: int, sockets: Sequence[ListeningSocket], pid: int | None) -> None:
        n = await asyncio.to_thread(self._numbers.of, port, taken=tuple(self._apps))
        if n is None:
            logger.warning("port %d gets no app number: all %d are in use", port, _MAX_DETECTED)
            return
        text = await asyncio.to_thread(command, pid) if pid else ""
        app = App(n, port, pid, text, f"app{n}.sock")
        hosts = frozenset(each.host for each in sockets)
        addresses = [(host, port) for host in sorted(hosts)]
        listener = await asyncio.to_thread(unix_listener, self._run_dir / app.socket)
        forwarder = Forwarder(listener, to_tcp(*addresses), on_refused=self._scan_now)
        await forwarder.start()
        self._apps[port] = _OpenApp(app, forwarder, hosts)
        if pid is not None:
            self._watch_process(pid)
        self._events.publish("port.opened", **asdict(app))

    async def _close(self, port: int) -> None:
        closed = self._apps.pop(port)
        app = closed.app
        await asyncio.to_thread((self._run_dir / app.socket).unlink, missing_ok=True)
        await closed.forwarder.aclose()
        self._events.publish("port.closed", n=app.n, port=port)

    def _scan_now(self) -> None:
        self._delay = _MIN_DELAY
        self._scan_requested.set()

    def _watch_process(self, pid: int) -> None:
        if pid in self._watched:
            return
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:  # the process has ended, or the kernel has no pidfd: scan to find out
            self._scan_now()
            return
        self._watched[pid] = descriptor
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, self._process_ended, pid, descriptor)

    def _process_ended(self, pid: int, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        del self._watched[pid]
        self._scan_now()


def _is_ephemeral(port: int) -> bool:
    """Whether the port is in the kernel's range of ephemeral ports."""
    first, last = map(int, _EPHEMERAL_RANGE.read_text().split())
    return first <= port <= last


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
