"""Sockets that servers listen on."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from bascule.serving.listener import stop_signals
from bascule.serving.sockets import bind_tcp, local_url, unix_listener


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("box.example", "http://box.example:80"),
    ],
)
def test_a_server_has_an_address_for_this_machine(host: str, url: str) -> None:
    assert local_url(host, 80) == url


def test_a_port_that_is_bound_twice_has_only_one_listener() -> None:
    with (
        bind_tcp("127.0.0.1", 0) as first,
        bind_tcp("127.0.0.1", first.getsockname()[1]) as second,
    ):
        second.listen()
        with pytest.raises(OSError, match="in use"):
            first.listen()


def test_a_unix_socket_replaces_a_stale_one(tmp_path: Path) -> None:
    path = tmp_path / "sock"
    unix_listener(path).close()

    with unix_listener(path, mode=0o666), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        assert path.stat().st_mode & 0o777 == 0o666


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_the_server_and_not_the_process(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_signals() as stopped:
        os.kill(os.getpid(), number)
        await asyncio.wait_for(stopped.wait(), 10)

    assert signal.getsignal(number) in (before, signal.SIG_DFL, signal.default_int_handler)
