"""A gateway and the hub's link to it, over real TLS connections, with a real action server."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bascule.core.errors import SandboxUnreachable
from bascule.core.rate_limit import RateLimit
from bascule.runtime.remote import RemoteRuntime
from bascule.runtime.spawn.kubernetes import pod_link
from bascule.runtime.spawn.kubernetes.key_pairs import (
    KeyPair,
    certificate_of_line,
    client_tls,
    new_key_pair,
    server_tls,
    stored_key_pair,
)
from bascule.runtime.spawn.kubernetes.pod_gateway import GatewaySettings, PodGateway
from bascule.runtime.spawn.kubernetes.pod_link import PodAddress, PodLink
from bascule.sandbox.process_table import ProcessInfo, all_processes, with_descendants
from bascule.sandbox.session.launch import SandboxLaunch
from tests.contracts.runtime import Seen

LAUNCH_TIMEOUT = 60


@dataclass(frozen=True)
class Pod:
    """A gateway, and what a hub needs to reach it."""

    place: Path
    gateway: PodGateway
    tls: ssl.SSLContext
    port: int

    def link(self, tls: ssl.SSLContext | None = None, **sockets: Path) -> PodLink:
        return PodLink(
            PodAddress("127.0.0.1", self.port),
            tls or self.tls,
            run_dir=self.place / "hub-side",
            hub_sockets=sockets,
        )

    def launch(self, **fields: str) -> dict[str, object]:
        return {
            "key": "a-key",
            "working_dir": str(self.place / "workspace"),
            "run_dir": str(self.place / "run"),
            "state_dir": str(self.place / "state"),
            "environment": {"PATH": os.defpath, "HOME": str(self.place), **fields},
            "browser": False,
        }


@dataclass(frozen=True)
class Keys:
    """Made once, outside of the event loop."""

    pair: KeyPair
    server: ssl.SSLContext
    client: ssl.SSLContext
    strange_client: ssl.SSLContext
    """With another key than the hub's."""
    client_of_another: ssl.SSLContext
    """The hub's, for another pod."""


@pytest.fixture(scope="module")
def keys() -> Keys:
    hub, pod, another = (new_key_pair(name) for name in ("hub", "pod", "another"))
    return Keys(
        pair=hub,
        server=server_tls(pod, hub.certificate),
        client=client_tls(hub, pod.certificate),
        strange_client=client_tls(another, pod.certificate),
        client_of_another=client_tls(hub, another.certificate),
    )


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bsc-") as directory:  # short: it has sockets
        for each in ("workspace", "run", "state", "hub", "hub-side"):
            Path(directory, each).mkdir()
        yield Path(directory)


@pytest.fixture
async def pod(place: Path, keys: Keys) -> AsyncIterator[Pod]:
    def processes() -> Mapping[int, ProcessInfo]:
        assert gateway._session is not None
        return with_descendants(gateway._session.pid, all_processes())

    settings = GatewaySettings(
        run_dir=place / "run",
        hub_dir=place / "hub",
        list_processes=processes,
        measured=(place / "workspace",),
        command=(sys.executable, "-m", "bascule.sandbox.session"),
        variables={"FROM_IMAGE": "yes", "PATH": "/nowhere"},
    )
    sock = socket.create_server(("127.0.0.1", 0))
    async with PodGateway(settings, keys.server) as gateway:
        await gateway.open(sock)
        yield Pod(place, gateway, keys.client, sock.getsockname()[1])
        await gateway.terminate()
        await gateway.ended


@asynccontextmanager
async def echo_server(path: Path) -> AsyncIterator[None]:
    """Answers with everything that it was sent, once the client has sent its end."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"all: " + await reader.read())
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(answer, path)
    yield
    server.close()
    path.unlink()


async def ask(path: Path, text: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(text)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


# Keys ---------------------------------------------------------------------------------------


def test_a_key_pair_is_stored_once_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "hub" / "key.pem"
    made = stored_key_pair(path, "hub")
    assert stored_key_pair(path, "hub") == made
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["key.pem"]
    assert "PRIVATE" not in repr(made)


def test_a_certificate_survives_its_line(keys: Keys) -> None:
    hub = keys.pair
    assert "\n" not in hub.line
    assert ssl.PEM_cert_to_DER_cert(certificate_of_line(hub.line)) == ssl.PEM_cert_to_DER_cert(
        hub.certificate
    )
    for wrong in ("answers", "", "AAAA"):
        with pytest.raises((ValueError, ssl.SSLError)):
            certificate_of_line(wrong)


async def test_nobody_without_the_hubs_key_gets_an_answer(pod: Pod, keys: Keys) -> None:
    stranger = pod.link(keys.strange_client)
    with pytest.raises(SandboxUnreachable):
        await stranger.request("status", timeout=20)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", pod.port, ssl=context)
    with pytest.raises((OSError, asyncio.IncompleteReadError)):  # no certificate at all
        await reader.readexactly(1)
    writer.close()
    assert await pod.link().request("status", timeout=20) == {
        "is_launched": False,
        "is_paused": False,
    }


async def test_a_pod_with_another_key_is_told_nothing(pod: Pod, keys: Keys) -> None:
    link = pod.link(keys.client_of_another)
    with pytest.raises(SandboxUnreachable, match="certificate"):
        await link.request("launch", launch=pod.launch(), timeout=20)
    assert not (await pod.link().request("status", timeout=20))["is_launched"]


# Connections --------------------------------------------------------------------------------


async def test_sockets_of_the_session_appear_at_the_hub_and_vanish(pod: Pod) -> None:
    mirrored = pod.place / "hub-side" / "app3.sock"
    async with pod.link() as link:
        link.open()
        async with echo_server(pod.place / "run" / "app3.sock"):
            await link.until_mirrored("app3.sock")
            assert await ask(mirrored, b"hello") == b"all: hello"
            big = os.urandom(1 << 20)
            answers = await asyncio.gather(*(ask(mirrored, big) for _ in range(8)))
            assert answers == [b"all: " + big] * 8
        (pod.place / "run" / "app4.sock").touch()  # not a socket
        async with echo_server(pod.place / "run" / "evil.sock"):
            async with echo_server(pod.place / "run" / "app5.sock"):
                await link.until_mirrored("app5.sock")
            found = {each.name for each in (pod.place / "hub-side").iterdir()}
            assert found == {"app5.sock"}
    assert list((pod.place / "hub-side").iterdir()) == []


async def test_programs_of_the_session_reach_the_sockets_of_the_hub(pod: Pod) -> None:
    inside = pod.place / "hub" / "hub.sock"
    async with echo_server(pod.place / "real.sock"):
        waiting = asyncio.create_task(ask(inside, b"early"))  # before the hub has connected
        async with pod.link(hub=pod.place / "real.sock") as link:
            link.open()
            assert await waiting == b"all: early"
            texts = [str(number).encode() for number in range(20)]
            answers = await asyncio.gather(*(ask(inside, text) for text in texts))
            assert answers == [b"all: " + text for text in texts]
        async with pod.link(hub=pod.place / "real.sock") as another:  # the next life of a hub
            another.open()
            assert await ask(inside, b"again") == b"all: again"


async def test_the_hub_waits_before_it_replaces_a_refused_connection(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = asyncio.Semaphore(0)

    def uniform(low: float, _high: float) -> float:
        pauses.release()
        return low / 100

    monkeypatch.setattr(pod_link, "_MAX_CONNECTIONS", 0)
    monkeypatch.setattr("random.uniform", uniform)
    link = pod.link(hub=pod.place / "nowhere")
    link.open()
    try:
        async with asyncio.timeout(30):
            for _ in range(5):
                reader, writer = await asyncio.open_unix_connection(pod.place / "hub/hub.sock")
                assert await reader.read() == b""
                writer.close()
                await pauses.acquire()
    finally:
        await link.aclose()


async def test_connections_of_a_session_have_a_rate(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_waiting, may_continue = asyncio.Event(), asyncio.Event()
    counted = 0

    async def wait(_limit: RateLimit) -> None:
        nonlocal counted
        counted += 1
        if counted > 4:
            is_waiting.set()
            await may_continue.wait()

    monkeypatch.setattr(RateLimit, "wait", wait)
    async with echo_server(pod.place / "echo"):
        link = pod.link(hub=pod.place / "echo")
        link.open()
        try:
            async with asyncio.timeout(30):
                path = pod.place / "hub/hub.sock"
                for _ in range(4):
                    assert await echoed(path) == b"all: x"
                await is_waiting.wait()
                fifth = asyncio.create_task(echoed(path))
                may_continue.set()
                assert await fifth == b"all: x"
        finally:
            await link.aclose()


async def echoed(path: Path) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"x")
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def test_a_socket_that_is_not_the_sessions_cannot_be_named(pod: Pod) -> None:
    link = pod.link()
    for name in ("../hub/hub.sock", "missing.sock", "file"):
        stream = await link._dial("socket", name=name)
        answer = (await stream.reader.read()).decode()
        assert "error" in answer
        stream.close()


# The session --------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_launched_session_acts_pauses_resumes_and_ends(pod: Pod) -> None:
    async with pod.link() as link:
        link.open()
        with pytest.raises(SandboxUnreachable, match="not been launched"):
            await link.request("pause", timeout=20)
        await link.request("launch", launch=pod.launch(MINE="1"), timeout=20)
        with pytest.raises(SandboxUnreachable, match="launched already"):
            await link.request("launch", launch=pod.launch(), timeout=20)
        async with asyncio.timeout(LAUNCH_TIMEOUT):
            await link.until_mirrored("sandbox.sock")
        path = pod.place / "hub-side" / "sandbox.sock"
        async with RemoteRuntime("http://localhost", "a-key", socket_path=path) as runtime:
            seen = await runtime.run("echo $FROM_IMAGE $MINE; mkfifo go; echo kept > file")
            assert seen.content == "yes 1\n"
            output = Seen()
            line = "echo begun; head -n 1 go; echo done"
            running = asyncio.create_task(runtime.run(line, on_progress=output))
            await output.wait_for(b"begun")
            await link.request("pause", timeout=60)
            assert (await link.request("status", timeout=20))["is_paused"]
            await link.request("resume", timeout=60)
            go = await asyncio.to_thread(os.open, pod.place / "workspace" / "go", os.O_RDWR)
            os.write(go, b"a line\n")
            assert (await running).content == "begun\na line\ndone\n"
            os.close(go)
        usage = await link.request("usage", timeout=20)
        assert usage["processes"] >= 1
        assert usage["memory_bytes"] > 1 << 20
        assert await link.request("disk", timeout=20) >= 4096
        await link.request("pause", timeout=60)
        await pod.gateway.terminate()
        async with asyncio.timeout(LAUNCH_TIMEOUT):
            assert await pod.gateway.ended == 0


@pytest.mark.slow
async def test_a_session_that_ends_at_once_ends_its_pod_with_its_status(pod: Pod) -> None:
    await pod.link().request("launch", launch={**pod.launch(), "key": ""}, timeout=20)
    async with asyncio.timeout(LAUNCH_TIMEOUT):
        assert await pod.gateway.ended != 0


async def test_launch_settings_of_a_spawner_are_understood(pod: Pod) -> None:
    assert set(pod.launch()) <= set(SandboxLaunch.__slots__)


# Network policy -----------------------------------------------------------------------------


async def test_a_launch_can_wait_until_the_network_is_closed(pod: Pod) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    target = server.sockets[0].getsockname()[:2]
    link = pod.link()
    assert not await link.request("blocked", targets=[target], within=0, timeout=20)
    waiting = asyncio.create_task(
        link.request("blocked", targets=[target], within=1000, timeout=60)
    )
    await asyncio.sleep(0)
    assert not waiting.done()
    server.close()
    assert await waiting is True
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await link.request("blocked", targets=[target], within=0, timeout=20) is True
    assert loop.time() - began >= 0.5  # one moment without a connection proves nothing
