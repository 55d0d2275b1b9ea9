"""The client with which `SandboxRuntime` starts and stops sessions of a hub."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from bascule.adapters.openhands_v0._hub import HubRuntimes
from bascule.core.errors import HubUnreachable, RemoteError


def url() -> str:
    return os.environ["SESSIONS_HUB"]


def test_a_conversation_without_a_session_is_not_found() -> None:
    assert HubRuntimes(url(), os.environ["SESSIONS_TOKEN"]).find("no such conversation") is None


def test_an_error_of_the_hub_names_the_hub_and_keeps_its_code() -> None:
    with pytest.raises(RemoteError, match=f"The hub at {url()} refused") as caught:
        HubRuntimes(url(), "wrong").find("any")

    assert caught.value.remote_code == "access.denied"


def test_a_hub_that_does_not_listen_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    with pytest.raises(HubUnreachable, match=str(port)):
        HubRuntimes(f"http://127.0.0.1:{port}", "any").find("any")


async def test_the_client_works_in_a_thread_with_a_running_event_loop() -> None:
    asyncio.get_running_loop()

    assert HubRuntimes(url(), os.environ["SESSIONS_TOKEN"]).find("no such conversation") is None
