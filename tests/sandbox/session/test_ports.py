"""What listens in a session is found, numbered and reached."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from bascule.sandbox.session.ports import DECLARED, AppNumbers

from .running import SESSION, launch_in, running, until

SERVE = "python3 -u -m http.server --bind {host} {port} >/dev/null 2>&1 &"


async def fetch(socket_path: Path, target: str = "/") -> bytes:
    reader, writer = await asyncio.open_unix_connection(socket_path)
    writer.write(f"GET {target} HTTP/1.0\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


def free_port() -> int:
    """Nobody listens there, and to find out nobody had to."""
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        return int(unheard.getsockname()[1])


def test_an_app_number_stays_with_its_port(tmp_path: Path) -> None:
    numbers = AppNumbers(tmp_path / "ports.json")
    given = [numbers.of(port, taken=()) for port in (3000, 8080, 3000)]
    again = AppNumbers(tmp_path / "ports.json")
    again.load()

    assert given == [0, 1, 0]
    assert [again.of(port, taken=()) for port in (8080, 5000, 3000)] == [1, 2, 0]


def test_a_new_port_takes_the_number_of_the_longest_closed_port(
    tmp_path: Path,
) -> None:
    numbers = AppNumbers(tmp_path / "ports.json")
    numbers.declare({8011: DECLARED[0]})
    ports = range(2000, 2098)
    for port in ports:
        numbers.of(port, taken=())
    numbers.of(2000, taken=())  # seen again, so 2001 is the one

    assert numbers.of(9000, taken=(2000, 2002)) == 1
    assert numbers.of(9001, taken=(9000, *ports)) is None
    assert numbers.of(8011, taken=()) == DECLARED[0]


def test_a_corrupt_file_of_app_numbers_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text("{")
    numbers = AppNumbers(tmp_path / "ports.json")
    numbers.load()

    assert numbers.of(3000, taken=()) == 0


@pytest.mark.slow
async def test_an_app_is_announced_proxied_and_removed_when_it_ends(tmp_path: Path) -> None:
    async with running(launch_in(tmp_path)) as session, session.events() as events:
        assert (await until(events, "state"))["ports"] == []
        port = free_port()
        await session.act("echo hello > greeting.txt")
        await session.act(SERVE.format(host="127.0.0.1", port=port))
        opened = await until(events, "port.opened")
        answer = await fetch(session.run / opened["socket"], "/greeting.txt")
        mode = (session.run / opened["socket"]).stat().st_mode & 0o777
        listed = (await session.get("/session/ports"))["ports"]
        await session.act("kill %1; wait")
        closed = await until(events, "port.closed")

        assert (opened["n"], opened["port"]) == (0, port)
        assert "http.server" in opened["command"]
        assert opened["path"] == f"/apps/{SESSION}-0/"
        assert listed == [opened]
        assert answer.endswith(b"hello\n")
        assert mode == 0o660
        assert closed == {"n": 0, "port": port}
        assert not (session.run / "app0.sock").exists()


@pytest.mark.slow
async def test_app_numbers_survive_a_sandbox_restart_but_sockets_do_not(tmp_path: Path) -> None:
    launch = launch_in(tmp_path)
    async with running(launch) as session, session.events() as events:
        first, second = free_port(), free_port()
        for port in (first, second):
            await session.act(SERVE.format(host="127.0.0.1", port=port))
            await until(events, "port.opened")
        os.kill(session.process.pid, signal.SIGKILL)
        await session.process.wait()
    left = sorted(path.name for path in session.run.iterdir())
    async with running(launch) as session, session.events() as events:
        swept = sorted(path.name for path in session.run.iterdir())
        await session.act(SERVE.format(host="127.0.0.1", port=second))
        opened = await until(events, "port.opened")
        answer = await fetch(session.run / "app1.sock")

    assert left == ["app0.sock", "app1.sock", "sandbox.sock"]
    assert swept == ["sandbox.sock"]
    assert (opened["n"], opened["port"]) == (1, second)
    assert answer.startswith(b"HTTP/1.0 200")


@pytest.mark.slow
async def test_an_app_on_ipv6_only_is_reachable(tmp_path: Path) -> None:
    async with running(launch_in(tmp_path)) as session, session.events() as events:
        await session.act(SERVE.format(host="::1", port=free_port()))
        opened = await until(events, "port.opened")

        assert (await fetch(session.run / opened["socket"])).startswith(b"HTTP/1.0 200")


@pytest.mark.slow
async def test_an_app_can_know_its_path_before_it_listens(tmp_path: Path) -> None:
    async with running(launch_in(tmp_path)) as session, session.events() as events:
        told = (await session.act("echo $APP_PORT_2 $APP_BASE_PATH_2"))["content"].split()
        await session.act(SERVE.format(host="127.0.0.1", port="$APP_PORT_2"))
        opened = await until(events, "port.opened")

    assert told == [str(opened["port"]), opened["path"]]
    assert opened["n"] == DECLARED[1]


@pytest.mark.slow
async def test_ports_of_other_processes_and_session_servers_are_not_listed_as_apps(
    tmp_path: Path,
) -> None:
    """This test's own server is somebody else's; a cell's kernel has sockets of its own."""
    other = await asyncio.start_server(lambda _, __: None, "127.0.0.1", 0)
    async with other, running(launch_in(tmp_path)) as session:
        cell = {"action": "run_ipython", "args": {"code": "1 + 1"}}
        status, _ = await session.post("/execute_action", {"action": cell})
        listed = await session.get("/session/ports")

    assert (status, listed["ports"]) == (200, [])


@pytest.mark.slow
async def test_an_idle_session_rarely_scans_for_ports(tmp_path: Path) -> None:
    async with running(launch_in(tmp_path)) as session:
        await session.get("/session/ports")
        # Long enough for the distance between two looks to grow past a second.
        await asyncio.sleep(4)
        before = os.times(), _seconds(session.process.pid)
        await asyncio.sleep(4)
        used = _seconds(session.process.pid) - before[1]

    assert used < 0.05


def _seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
