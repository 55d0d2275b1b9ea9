"""Everything a runtime must do, done by an action server in a container.

The suite looks at a workspace from both sides, so a container sees it where the tests do. One
container serves all tests; in it each test has an action server of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from bascule.core.sessions import SandboxPlan, new_session_id
from bascule.runtime import RemoteRuntime, Verbs
from bascule.runtime.spawn.docker import DockerSettings, DockerSpawner
from bascule.runtime.spawn.docker.container import container_name
from bascule.runtime.spawn.docker.engine import Engine
from bascule.sandbox.session.launch import SandboxLaunch
from bascule.sandbox.settings import SandboxSettings
from tests.contracts import runtime as contract
from tests.contracts.runtime import Make, RuntimeSuite, gone
from tests.contracts.spawner import server_of
from tests.dockerd import Dockerd

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(300)]

NURSERY = """
import functools, json, os, signal, socket, sys
import bascule.sandbox.session.__main__ as session

listening = socket.socket(socket.AF_UNIX)
listening.bind("/run/bascule/nursery")
listening.listen()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    asked, _ = listening.accept()
    if os.fork():
        asked.close()
        continue
    os.setsid()
    listening.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(asked.fileno(), 0)
    sys.stdin = open(0)
    given = json.loads(sys.stdin.buffer.readline())
    session.ShellSettings = functools.partial(session.ShellSettings, **given)
    session.main()
    sys.exit()
"""
"""In the container: forks an action server, all imported, for each that is asked for."""


@dataclass(frozen=True, slots=True)
class Container:
    """One that runs, and sees `plan.folder` where it is."""

    settings: DockerSettings
    plan: SandboxPlan

    @property
    def name(self) -> str:
        return container_name(self.settings, self.plan.session_id)


class Contained(RemoteRuntime):
    """A remote runtime that brings its server along, in a container."""

    def __init__(
        self,
        container: Container,
        settings: SandboxSettings,
        kind: Literal["pty", "tmux"],
        **keywords: Any,
    ) -> None:
        shells = settings.shells
        name = secrets.token_hex(4)
        self._container = container
        self._plan = replace(container.plan, run_dir=container.plan.run_dir / name)
        self._kept = {"soft_timeout": shells.soft_timeout, "log_limit": shells.log_limit}
        self._launch = SandboxLaunch(
            key=container.plan.key,
            working_dir=str(shells.working_dir),
            run_dir=f"/run/bascule/{name}",
            state_dir=f"/var/lib/bascule/{name}",
            environment={"PATH": os.defpath, "HOME": "/home/bascule", "LANG": "C.UTF-8"},
            shells=kind,
        )
        path = self._plan.run_dir / "sandbox.sock"
        super().__init__(
            "http://localhost", self._launch.key, socket_path=path, connect_timeout=60, **keywords
        )

    async def connect(self) -> None:
        await asyncio.to_thread(self._plan.run_dir.mkdir)
        _, writer = await asyncio.open_unix_connection(self._container.plan.run_dir / "nursery")
        writer.write(json.dumps(self._kept).encode() + b"\n" + self._launch.to_json())
        await writer.drain()
        writer.close()
        await super().connect()

    async def aclose(self) -> None:
        await super().aclose()
        with suppress(FileNotFoundError, ConnectionRefusedError, ProcessLookupError):
            server = await asyncio.to_thread(server_of, self._plan)
            os.kill(server, signal.SIGTERM)
            await gone(server)


def start(container: Container) -> None:
    async def start() -> None:
        async with DockerSpawner(container.settings) as spawner:
            await spawner.open()
            await spawner.start(container.plan)
        async with Engine(container.settings.engine) as engine:
            await engine.open()
            command = [container.settings.command[0], "-c", NURSERY]
            started = await engine.container(container.name).exec(command)
            await started.start(detach=True)
        while not (container.plan.run_dir / "nursery").exists():
            await asyncio.sleep(0.01)

    asyncio.run(start())


def stop(container: Container) -> None:
    async def stop() -> None:
        async with DockerSpawner(container.settings) as spawner:
            await spawner.open()
            await spawner.stop(container.plan.session_id, grace=0)

    asyncio.run(stop())


def outside(pid: int, container: Container) -> int | None:
    """The host's number of a process in the container."""
    namespace = os.readlink(f"/proc/{server_of(container.plan)}/ns/pid")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if os.readlink(entry / "ns/pid") != namespace:
                continue
            numbers = (entry / "status").read_text().partition("NSpid:")[2].splitlines()[0]
            if int(numbers.split()[-1]) == pid:
                return int(entry.name)
    return None


@pytest.fixture(scope="module")
def container(engine: Dockerd, image: str) -> Iterator[Container]:
    place = Path(tempfile.mkdtemp(prefix="bsc-"))
    settings = DockerSettings(
        sessions_dir=place / "sessions",
        run_dir=place / "run",
        engine=engine.address,
        image=image,
        workspace=str(place / "project"),
        workspace_roots=(place,),
        allow_root=True,
    )
    (place / "project").mkdir()
    session_id = new_session_id()
    plan = SandboxPlan(
        session_id=session_id,
        directory=settings.sessions_dir / session_id,
        run_dir=settings.run_dir / session_id,
        folder=place / "project",
        key=secrets.token_hex(),
    )
    container = Container(settings, plan)
    start(container)
    yield container
    stop(container)
    shutil.rmtree(place)


class _InAContainer:
    kind: Literal["pty", "tmux"]

    @pytest.fixture
    def workspace(self, container: Container) -> Path:
        assert container.plan.folder is not None
        return Path(tempfile.mkdtemp(dir=container.plan.folder))

    @pytest.fixture
    def make(self, container: Container) -> Make:
        def make(settings: SandboxSettings, **keywords: Any) -> Verbs:
            return Contained(container, settings, self.kind, **keywords)

        return make

    @pytest.fixture(autouse=True)
    def processes_of_the_container(
        self, container: Container, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The numbers that a shell tells are those of its own namespace."""

        async def gone_inside(pid: int) -> None:
            if (number := await asyncio.to_thread(outside, pid, container)) is not None:
                await gone(number)

        monkeypatch.setattr(contract, "gone", gone_inside)


class TestPty(_InAContainer, RuntimeSuite):
    kind = "pty"


class TestTmux(_InAContainer):
    """The container's own tmux. That tmux shells keep the rest of the contract is shown in
    tests/runtime/test_local.py, that containers do in `TestPty`."""

    kind = "tmux"
    runtime = RuntimeSuite.runtime
    close_the_place = RuntimeSuite.close_the_place

    test_a_shell_keeps_state_between_commands = (
        RuntimeSuite.test_a_shell_keeps_state_between_commands
    )
    test_text_arrives_as_it_was_printed = RuntimeSuite.test_text_arrives_as_it_was_printed
    test_output_is_reported_while_the_command_runs = (
        RuntimeSuite.test_output_is_reported_while_the_command_runs
    )
    test_a_command_past_its_timeout_keeps_running_and_accepts_input = (
        RuntimeSuite.test_a_command_past_its_timeout_keeps_running_and_accepts_input
    )
    test_an_interrupt_ends_the_program_and_says_so = (
        RuntimeSuite.test_an_interrupt_ends_the_program_and_says_so
    )
    test_cancelling_ends_the_command_and_leaves_the_shell_usable = (
        RuntimeSuite.test_cancelling_ends_the_command_and_leaves_the_shell_usable
    )
    test_closing_ends_every_process = RuntimeSuite.test_closing_ends_every_process
