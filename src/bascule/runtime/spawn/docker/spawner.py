"""Sandboxes as containers of a Docker engine."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
from collections import defaultdict
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiodocker
from aiodocker.containers import DockerContainer
from aiodocker.stream import Stream

from bascule.core.contracts import OnStage, Spawner
from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    NoSuchSandbox,
    SandboxStartFailed,
    SandboxUnreachable,
)
from bascule.core.sessions import RunningSandbox, SandboxPlan, SessionId, Usage
from bascule.runtime.spawn import disk, routes
from bascule.runtime.spawn.egress.networks import network_reach, own_addresses
from bascule.runtime.spawn.egress.proxies import EgressProxies
from bascule.runtime.spawn.egress.proxy import Resolve
from bascule.runtime.spawn.readiness import wait_until_ready
from bascule.runtime.spawn.session_paths import PATH

from .container import (
    SCOPE,
    ContainerInfo,
    ContainerSpec,
    container_name,
    ensure_can,
    environment_of,
)
from .engine import Engine, end_input, engine_errors
from .foreign_image import ForeignImage, ensure_can_run, is_foreign, no_shell
from .images import ensure_image
from .network import Network
from .portable import make_portable
from .settings import DockerSettings
from .users import clear_sockets, prepare, remove_directory

logger = logging.getLogger(__name__)

LOG: Final = "sandbox.log"
"""File in a session's directory with the log of its last container."""

_KEPT_LINES: Final = 1000
"""Log lines of a removed container that are kept."""
_ACCOUNTS: Final = ("passwd", "group")
_BUSY_TIMEOUT: Final = 10.0
"""Seconds to wait for the engine to finish earlier requests for the same name."""
_POLL_INTERVAL: Final = 0.05
_GONE: Final = (404, 409)
"""HTTP statuses of a container that is removed or being removed."""


class DockerSpawner(Spawner):
    """Starts each sandbox as a container that runs as the owner of its workspace.

    A container is found by its name and labels, so if this process dies, `running` and `stop` of
    another process find it. The launch settings, which contain the key, go through the container's
    stdin: neither the engine nor any file stores them. If the spawner dies before it has written
    the settings, stdin closes and the sandbox ends.
    """

    kind = "docker"

    def __init__(self, settings: DockerSettings, *, resolve: Resolve | None = None) -> None:
        """`resolve`: how egress proxies look up names."""
        self.settings = settings
        self._engine = Engine(settings.engine)
        self._network = Network(self._engine, settings.network, settings.scope)
        self._proxies = EgressProxies(settings.run_dir, resolve)
        self._locks: defaultdict[SessionId, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._making_portable = asyncio.Lock()
        self._undoing: set[asyncio.Future[None]] = set()

    async def open(self) -> None:
        await self._engine.open()
        await asyncio.to_thread(_make_dirs, self.settings)
        for found in await self._all():
            if found.is_running:
                await self._proxies.open(found.session_id, found.egress)

    async def aclose(self) -> None:
        """Wait until failed starts are undone. Running sandboxes continue."""
        await asyncio.gather(*self._undoing, return_exceptions=True)
        await self._proxies.aclose()
        await self._engine.aclose()

    async def start(self, plan: SandboxPlan, *, on_stage: OnStage | None = None) -> RunningSandbox:
        on_stage = on_stage or _ignore_stage
        async with self._locks[plan.session_id]:
            try:
                found = await self._find(plan.session_id)
                if found is not None and await self._answers(plan, found):
                    return replace(found.as_running(), is_paused=False)
                if found is not None:
                    await self._remove(found)
                return await self._start_new(plan, on_stage)
            except aiodocker.DockerError as error:
                raise SandboxStartFailed(f"The engine refused: {error.message}") from error

    async def running(self) -> Sequence[RunningSandbox]:
        """The running sandboxes.

        Also removes containers that a killed spawner left: those that never started, and those
        that ended long ago.
        """
        everything = await self._all()
        for found in everything:
            if not found.is_running and not self._locks[found.session_id].locked():
                await self._remove_if_old(found)
        running = [found.as_running() for found in everything if found.is_running]
        busy = {session_id for session_id, lock in self._locks.items() if lock.locked()}
        await self._proxies.close_others(busy | {each.session_id for each in running})
        return running

    async def pause(self, session_id: SessionId) -> None:
        async with self._locks[session_id]:
            found = await self._get_running(session_id)
            if not found.is_paused:
                with engine_errors():
                    await self._engine.container(found.id).pause()

    async def resume(self, session_id: SessionId) -> None:
        async with self._locks[session_id]:
            found = await self._get_running(session_id)
            if found.is_paused:
                with engine_errors():
                    await self._engine.container(found.id).unpause()

    async def stop(self, session_id: SessionId, *, grace: float = 10.0) -> None:
        async with self._locks[session_id]:
            found = await self._find(session_id)
            if found is None:
                return
            if found.is_running:
                await self._ask_to_end(found, grace)
            await self._remove(found)

    async def wait_for_unexpected_end(self, session_id: SessionId) -> str:
        found = await self._find(session_id)
        if found is None or not found.is_running:
            return "it is not running"
        return await self._ended(found.id)

    async def usage(self, session_id: SessionId) -> Usage:
        found = await self._get_running(session_id)
        return await self._engine.usage(found.id)

    async def log_tail(self, session_id: SessionId, *, lines: int = 100) -> str:
        found = await self._find(session_id)
        if found is not None:
            return await self._engine.log(found.id, lines)
        log = await asyncio.to_thread(_read, self._log_of(session_id))
        return "\n".join(log.splitlines()[-lines:])

    async def disk(self, directory: Path) -> int:
        run_dir = self.settings.run_dir
        used = await disk.used_below(self.settings.sessions_dir, directory)
        used += await disk.used_below(run_dir, run_dir / directory.name)
        found = await self._find(SessionId(directory.name))
        return used if found is None else used + await self._engine.written(found.id)

    async def remove(self, directory: Path) -> None:
        if directory.parent != self.settings.sessions_dir:
            raise AccessDenied(f"{directory} is not a session directory of this hub")
        async with self._locks[SessionId(directory.name)]:
            await asyncio.to_thread(remove_directory, directory)

    # Starting -----------------------------------------------------------------------------

    async def _answers(self, plan: SandboxPlan, found: ContainerInfo) -> bool:
        """Whether the container answers. If not, it has ended, which the engine may not know
        yet."""
        if found.is_paused:
            with engine_errors():
                await self._engine.container(found.id).unpause()
        try:
            if found.is_running:
                await self._until_it_answers(plan, found.id)
                return True
        except SandboxStartFailed:
            now = await self._find(plan.session_id)
            if now is not None and now.is_running:
                raise
        return False

    async def _start_new(self, plan: SandboxPlan, on_stage: OnStage) -> RunningSandbox:
        ensure_can(plan, is_rootless=self._engine.is_rootless)
        on_stage("preparing its directories")
        taken = {found.uid for found in await self._all() if found.is_running}
        owner = await asyncio.to_thread(prepare, self.settings, plan, taken)
        spec = ContainerSpec(self.settings, plan, owner, self._engine.is_rootless)
        on_stage(f"looking for the image {spec.image}")
        image = await ensure_image(self._engine, spec.image, on_stage)
        if is_foreign(self.settings, image):
            ensure_can_run(spec.image, image)
            on_stage("preparing a copy of Bascule for the image")
            spec = replace(spec, foreign=await self._foreign(image))
        helper = await self._network_helper(spec, on_stage) if plan.egress.mode == "open" else None
        on_stage("starting its container")
        starting = asyncio.ensure_future(self._run(spec, image, helper))
        try:
            container_id, stream = await asyncio.shield(starting)
            on_stage("waiting for its action server")
            await self._until_it_answers(plan, container_id, announced=stream.read_out())
        except BaseException:
            await self._undo(plan, starting)
            raise
        await stream.close()
        return RunningSandbox(session_id=plan.session_id, uid=owner.uid)

    async def _foreign(self, image: Mapping[str, Any]) -> ForeignImage:
        """What the container of an image without Bascule needs, except for the image's files."""
        async with self._making_portable:
            copy = await asyncio.to_thread(make_portable, self.settings.portable_copies)
        return ForeignImage(copy, environment_of(image).get("PATH", PATH))

    async def _network_helper(self, spec: ContainerSpec, on_stage: OnStage) -> ContainerSpec:
        """The image and the program of the helper that changes the routes of the session's network.

        It is the image of the settings, never one that a session names: such an image could run its
        own code with the helper's rights, for example by `LD_PRELOAD`.
        """
        helper = replace(spec, plan=replace(spec.plan, image=""), foreign=None)
        if helper.image == spec.image:
            return spec
        try:
            image = await ensure_image(self._engine, helper.image, on_stage)
        except SandboxStartFailed as error:
            raise SandboxStartFailed(
                "A session with open egress needs the hub's own image, to block private "
                f"networks: {error.message}"
            ) from error
        if is_foreign(self.settings, image):
            ensure_can_run(helper.image, image)
            helper = replace(helper, foreign=await self._foreign(image))
        return helper

    async def _run(
        self, spec: ContainerSpec, image: Mapping[str, Any], helper: ContainerSpec | None
    ) -> tuple[str, Stream]:
        """Create and start the container. `helper`: of `_network_helper`; None: without a network.

        Must not be cancelled, because the engine would continue regardless. Returns the container's
        id and its stream.

        The first output on the stream means that the sandbox answers. The caller closes the stream.
        """
        plan = spec.plan
        await self._proxies.open(plan.session_id, plan.egress)
        with engine_errors():
            async with self._network.held(needed=plan.egress.mode == "open"):
                container = await self._create_container(spec)
                spec = await self._with_accounts(spec, container)
                archive = spec.initial_files()
                await container.put_archive("/", archive)  # type: ignore[no-untyped-call]
                stream = container.attach(stdin=True, stdout=True)
                try:
                    # Attach before the start: if we die in between, the container's stdin closes.
                    await stream.__aenter__()
                    await container.start()
                    if helper is not None:
                        await self._block_private_networks(container.id, helper)
                    await stream.write_in(spec.launch(image).to_json())
                    end_input(stream)
                except BaseException:
                    await stream.close()
                    raise
        return container.id, stream

    async def _with_accounts(
        self, spec: ContainerSpec, container: DockerContainer
    ) -> ContainerSpec:
        """The spec with the accounts of an image without Bascule. Raises `SandboxStartFailed` if
        the image has no shell."""
        if spec.foreign is None:
            return spec
        if not await self._engine.has_file(container, "/bin/sh"):
            raise no_shell(spec.image)
        read = self._engine.read_small_file
        files = {name: await read(container, f"/etc/{name}") for name in _ACCOUNTS}
        texts = {name: content.decode(errors="replace") for name, content in files.items()}
        return replace(spec, foreign=replace(spec.foreign, accounts=texts))

    async def _block_private_networks(self, container_id: str, helper: ContainerSpec) -> None:
        """Block private networks in the container's network namespace, before the session runs
        anything. The session has no permission to change the routes."""
        reach = await asyncio.to_thread(
            lambda: network_reach(self.settings.open_networks, own_addresses())
        )
        program = await asyncio.to_thread(Path(routes.__file__).read_text)
        allowed = self.settings.open_networks
        argument = json.dumps(
            {"reject": reach.rejected, "lead": reach.allowed_networks, "allowed": allowed}
        )
        command = [*helper.interpreter, "-I", "-c", program, argument]
        output = await self._engine.run_in_network_of(
            container_id, helper.image, command, mounts=helper.program_mounts
        )
        if output != routes.DONE:
            raise SandboxStartFailed(
                f"The routes of its network could not be set: {output.strip()}"
            )

    async def _create_container(self, spec: ContainerSpec) -> DockerContainer:
        """Create the container.

        The engine may still be creating a container of the same name for a killed spawner. That
        container is removed first.
        """
        deadline = asyncio.get_running_loop().time() + _BUSY_TIMEOUT
        while True:
            try:
                return await self._engine.docker.containers.create(
                    spec.configuration(), name=spec.name
                )
            except aiodocker.DockerError as error:
                if error.status != 409 or asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(_POLL_INTERVAL)
            with suppress(aiodocker.DockerError):  # not created yet, or removed already
                await self._engine.container(spec.name).delete(force=True)

    async def _until_it_answers(
        self, plan: SandboxPlan, container_id: str, *, announced: Awaitable[object] | None = None
    ) -> None:
        await wait_until_ready(
            plan.run_dir,
            plan.key,
            ended=self._ended(container_id),
            within=self.settings.start_timeout,
            announced=announced,
        )

    async def _undo(self, plan: SandboxPlan, starting: Awaitable[tuple[str, Stream]]) -> None:
        undoing = asyncio.ensure_future(self._undo_start(plan, starting))
        self._undoing.add(undoing)
        undoing.add_done_callback(self._undoing.discard)
        await asyncio.shield(undoing)

    async def _undo_start(self, plan: SandboxPlan, starting: Awaitable[tuple[str, Stream]]) -> None:
        with suppress(aiodocker.DockerError, BasculeError):  # the start itself reports them
            _, stream = await starting
            await stream.close()
        if (found := await self._find(plan.session_id)) is not None:
            await self._remove(found)
        else:
            await self._proxies.close(plan.session_id)

    # Finding ------------------------------------------------------------------------------

    async def _all(self) -> list[ContainerInfo]:
        return await self._engine.all(f"{SCOPE}={self.settings.scope}")

    async def _find(self, session_id: SessionId) -> ContainerInfo | None:
        return await self._engine.find(container_name(self.settings, session_id))

    async def _get_running(self, session_id: SessionId) -> ContainerInfo:
        found = await self._find(session_id)
        if found is None or not found.is_running:
            raise NoSuchSandbox(f"No sandbox runs for the session {session_id}")
        return found

    async def _ended(self, container_id: str) -> str:
        try:
            with engine_errors():
                await self._engine.container(container_id).wait()
                description = await self._engine.container(container_id).show()
            log_text = await self._engine.log(container_id, 20)
        except aiodocker.DockerError:
            return "its container was removed"
        state = description["State"]
        reasons = [f"its process ended with exit status {state['ExitCode']}"]
        if state.get("OOMKilled"):
            reasons.append("it had used all of its memory")
        reasons += [str(state.get("Error") or ""), log_text.rstrip()]
        return "\n".join(filter(None, reasons))

    # Ending -------------------------------------------------------------------------------

    async def _ask_to_end(self, found: ContainerInfo, grace: float) -> None:
        """Stop the container within `grace` seconds.

        The engine unpauses a paused container to deliver the signal.
        """
        with (
            engine_errors(),
            suppress(aiodocker.DockerError),
        ):  # it ended, or is removed by force next
            await self._engine.container(found.id).stop(t=math.ceil(grace))

    async def _remove_if_old(self, found: ContainerInfo) -> None:
        async with self._locks[found.session_id]:
            idle = datetime.now(UTC) - await self._engine.idle_since(found.id)
            now = await self._find(found.session_id)
            is_same = now is not None and now.id == found.id and not now.is_running
            if is_same and idle.total_seconds() >= self.settings.kept_for:
                await self._remove(found)

    async def _remove(self, found: ContainerInfo) -> None:
        """Remove the container by force, with everything that was made for it. Its last log lines
        are kept."""
        container = self._engine.container(found.id)
        with suppress(aiodocker.DockerError):  # never started, or removed
            text = await self._engine.log(found.id, _KEPT_LINES)
            await asyncio.to_thread(_write, self._log_of(found.session_id), text)
        try:
            with engine_errors():
                await container.delete(force=True, v=True)
        except aiodocker.DockerError as error:
            if error.status not in _GONE:
                raise SandboxUnreachable(
                    f"The engine did not remove it: {error.message}"
                ) from error
            with engine_errors(), suppress(aiodocker.DockerError):
                await container.wait(condition="removed")
        await asyncio.to_thread(clear_sockets, found.run_dir)
        await self._proxies.close(found.session_id)
        if found.egress.mode == "open":
            await self._network.drop()

    def _log_of(self, session_id: SessionId) -> Path:
        return self.settings.sessions_dir / session_id / LOG


def _ignore_stage(_stage: str) -> None: ...


def _make_dirs(settings: DockerSettings) -> None:
    settings.sessions_dir.mkdir(parents=True, exist_ok=True)
    settings.run_dir.mkdir(parents=True, exist_ok=True)


def _write(log: Path, text: str) -> None:
    if log.parent.is_dir():
        descriptor = os.open(
            log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)


def _read(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
