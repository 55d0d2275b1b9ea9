"""Sandboxes as pods of a Kubernetes cluster."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from bascule.core.contracts import OnStage, Spawner
from bascule.core.errors import (
    AccessDenied,
    BasculeError,
    MissingTool,
    NoSuchSandbox,
    SandboxStartFailed,
    SandboxUnreachable,
)
from bascule.core.sessions import RunningSandbox, SandboxPlan, SessionId, Usage
from bascule.runtime.spawn import disk, trees
from bascule.runtime.spawn.egress.proxies import EgressProxies
from bascule.runtime.spawn.egress.proxy import Resolve
from bascule.runtime.spawn.local.directories import EGRESS_SOCKET, egress_dir
from bascule.runtime.spawn.readiness import wait_until_ready
from bascule.sandbox.session.__main__ import SOCKET

from ._gateway_main import ANNOUNCEMENT, PORT
from .api import ApiRefused, JsonObject, KubernetesApi, ResourceKind
from .cluster_access import ClusterAccess
from .failures import end_of, problem_in_events, problem_of, refusal, stage_of, vanished
from .key_pairs import KeyPair, certificate_of_line, client_tls, stored_key_pair
from .object_watch import ObjectWatch
from .pod_link import PodAddress, PodLink
from .pods import (
    PAUSED,
    POD_CERTIFICATE,
    PodInfo,
    PodSpec,
    ensure_can,
    hub_sockets,
    pod_name,
    selector,
)
from .settings import KubernetesSettings

logger = logging.getLogger(__name__)

LOG: Final = "sandbox.log"
"""File in a session's directory with the log of its last pod."""

_KEPT_LINES: Final = 1000
_REQUEST_TIMEOUT: Final = 30.0
_PAUSE_TIMEOUT: Final = 90.0
_DISK_TIMEOUT: Final = 600.0
_REMOVAL_TIMEOUT: Final = 60.0
"""Seconds, beyond the grace, until a deleted pod must be gone."""


class KubernetesSpawner(Spawner):
    """Starts each sandbox as a pod; the session's files are in a volume claim of the same name.

    Pods are found by their labels, so a restarted hub finds them again. The launch settings, which
    contain the key, are sent over the hub's connection to the gateway in the pod: neither the
    cluster nor any file stores them.
    """

    kind = "kubernetes"
    shares_files = False

    def __init__(
        self,
        settings: KubernetesSettings,
        access: ClusterAccess,
        *,
        hub_sockets_dir: Path | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        """`hub_sockets_dir`: contains `SESSION/hub.sock` of sessions; None: sessions have no such
        socket. `resolve`: how egress proxies look up names."""
        self.settings = settings
        self._access = access
        self._hub_sockets_dir = hub_sockets_dir
        self._api = KubernetesApi(access, settings.namespace)
        self._pods = ObjectWatch(self._api, ResourceKind.PODS, labels=selector(settings))
        self._proxies = EgressProxies(settings.run_dir, resolve)
        self._links: dict[SessionId, PodLink] = {}
        self._link_uids: dict[SessionId, str] = {}
        self._locks: WeakValueDictionary[SessionId, asyncio.Lock] = WeakValueDictionary()
        """Locks that somebody holds or waits for; use `_lock`."""
        self._undoing: set[asyncio.Future[None]] = set()
        self._keys: KeyPair | None = None

    async def open(self) -> None:
        await asyncio.to_thread(_make_dirs, self.settings)
        self._keys = await asyncio.to_thread(stored_key_pair, self.settings.key_file, "hub")
        await self._api.open()
        try:
            await self._pods.open()
            for found in await self._all():
                if found.is_running:
                    await self._link_if_valid(found)
        except (ApiRefused, SandboxUnreachable) as error:
            await self.aclose()
            raise MissingTool(f"The Kubernetes cluster cannot be used: {error}") from error

    async def aclose(self) -> None:
        """Wait until failed starts are undone. Running sandboxes continue."""
        await asyncio.gather(*self._undoing, return_exceptions=True)
        await asyncio.gather(*map(self._unlink, tuple(self._links)))
        await self._proxies.aclose()
        await self._pods.aclose()
        await self._api.aclose()

    async def start(self, plan: SandboxPlan, *, on_stage: OnStage | None = None) -> RunningSandbox:
        async with self._lock(plan.session_id):
            try:
                found = await self._find(plan.session_id)
                if found is not None and await self._answers(plan, found):
                    return RunningSandbox(session_id=plan.session_id)
                if found is not None:
                    await self._remove(found, grace=0)
                return await self._start_new(plan, on_stage or _ignore_stage)
            except ApiRefused as refused:
                cause = refusal(refused, self._api.namespace)
                raise SandboxStartFailed(cause) from refused

    async def running(self) -> Sequence[RunningSandbox]:
        """The running sandboxes.

        Also removes pods that ended, or that a killed hub created and never launched, after
        `kept_for`.
        """
        everything = await self._all()
        for found in everything:
            if not found.is_running and not self._lock(found.session_id).locked():
                await self._remove_if_old(found)
        running = [found for found in everything if found.is_running]
        for found in running:
            if not self._lock(found.session_id).locked():
                await self._link_if_valid(found)
        busy = {session_id for session_id, lock in self._locks.items() if lock.locked()}
        kept = busy | {each.session_id for each in running}
        for session_id in set(self._links) - kept:
            await self._unlink(session_id)
        await self._proxies.close_others(kept)
        return [found.as_running() for found in running]

    async def pause(self, session_id: SessionId) -> None:
        async with self._lock(session_id):
            found = await self._get_running(session_id)
            await self._set_paused(found, "pause", is_paused=True)

    async def resume(self, session_id: SessionId) -> None:
        async with self._lock(session_id):
            found = await self._get_running(session_id)
            await self._set_paused(found, "resume", is_paused=False)

    async def stop(self, session_id: SessionId, *, grace: float = 10.0) -> None:
        async with self._lock(session_id):
            if (found := await self._find(session_id)) is not None:
                await self._remove(found, grace=grace)
            await self._unlink(session_id)
            await self._proxies.close(session_id)

    async def wait_for_unexpected_end(self, session_id: SessionId) -> str:
        found = await self._find(session_id)
        if found is None or not found.is_running:
            return "it is not running"
        return await self._ended(found)

    async def usage(self, session_id: SessionId) -> Usage:
        link = await self._ensure_linked(await self._get_running(session_id))
        return Usage(**await link.request("usage", timeout=_REQUEST_TIMEOUT))

    async def log_tail(self, session_id: SessionId, *, lines: int = 100) -> str:
        if await self._find(session_id) is not None:
            return await self._log(session_id, lines)
        log = await asyncio.to_thread(_read, self._log_of(session_id))
        return "\n".join(log.splitlines()[-lines:])

    async def disk(self, directory: Path) -> int:
        """Bytes in the hub's directory of the session, and in the pod if it runs. The volume of a
        stopped session cannot be measured."""
        used = await disk.used_below(self.settings.sessions_dir, directory)
        found = await self._find(SessionId(directory.name))
        if found is None or not found.is_running:
            return used
        link = await self._ensure_linked(found)
        return used + int(await link.request("disk", timeout=_DISK_TIMEOUT))

    async def remove(self, directory: Path) -> None:
        if directory.parent != self.settings.sessions_dir:
            raise AccessDenied(f"{directory} is not a session directory of this hub")
        session_id = SessionId(directory.name)
        async with self._lock(session_id):
            with _unreachable():
                await self._api.delete(ResourceKind.CLAIMS, pod_name(session_id))
            await asyncio.to_thread(trees.remove, directory)

    def _lock(self, session_id: SessionId) -> asyncio.Lock:
        """Held by one task that changes the session's pod."""
        if (found := self._locks.get(session_id)) is None:
            found = self._locks[session_id] = asyncio.Lock()
        return found

    # Starting -----------------------------------------------------------------------------

    async def _answers(self, plan: SandboxPlan, found: PodInfo) -> bool:
        """Whether the pod's action server answers. If not, it has ended, or its launch was never
        finished."""
        if not found.is_running:
            return False
        try:
            link = await self._ensure_linked(found)
            status = await link.request("status", timeout=_REQUEST_TIMEOUT)
            if not status["is_launched"]:
                return False
            if status["is_paused"] or found.is_paused:
                await self._set_paused(found, "resume", is_paused=False)
            await self._until_it_answers(plan, found, link)
        except (SandboxUnreachable, SandboxStartFailed) as error:
            logger.info("the pod of session %s is replaced: %s", plan.session_id, error.message)
            return False
        return True

    async def _start_new(self, plan: SandboxPlan, on_stage: OnStage) -> RunningSandbox:
        ensure_can(plan)
        assert self._keys is not None
        spec = PodSpec(self.settings, plan, self._keys.line)
        on_stage("creating its pod")
        try:
            async with asyncio.timeout(self.settings.start_timeout):
                await self._create(spec)
                await self._until_running(spec, on_stage)
                await self._launch(spec, on_stage)
        except BaseException as error:
            last = self._pods.objects.get(spec.name)  # before it is removed
            undoing = asyncio.ensure_future(self._undo(plan.session_id))
            self._undoing.add(undoing)
            undoing.add_done_callback(self._undoing.discard)
            if isinstance(error, TimeoutError):
                cause = await self._slow_start(spec, last)
                await asyncio.shield(undoing)
                raise SandboxStartFailed(cause) from None
            await asyncio.shield(undoing)
            raise
        return RunningSandbox(session_id=plan.session_id)

    async def _create(self, spec: PodSpec) -> None:
        try:
            await self._api.create(ResourceKind.CLAIMS, spec.claim())
        except ApiRefused as refused:
            if refused.status != 409:
                raise
        try:
            await self._api.create(ResourceKind.PODS, spec.manifest())
        except ApiRefused as refused:
            if refused.status != 409:
                raise
            # A killed hub created it, or another hub does so now.
            raise SandboxStartFailed(
                f"The pod {spec.name} exists already; another hub may be starting this session"
            ) from refused

    async def _until_running(self, spec: PodSpec, on_stage: OnStage) -> None:
        """Wait until the pod's gateway runs, and report what the start waits for."""
        last = ""

        def find(pods: Mapping[str, JsonObject]) -> bool | None:
            nonlocal last
            if (pod := pods.get(spec.name)) is None:
                return None
            if (stage := stage_of(pod)) != last:
                last = stage
                on_stage(stage)
            problem = problem_of(pod)
            if problem is not None and problem.is_final:
                raise SandboxStartFailed(problem.text)
            found = PodInfo.read(pod)
            if found.has_ended or found.is_terminating:
                raise SandboxStartFailed(f"The pod ended: {end_of(pod, spec.plan.limits)}")
            return True if found.phase == "Running" and found.address else None

        await self._pods.wait_until(find)

    async def _launch(self, spec: PodSpec, on_stage: OnStage) -> None:
        plan = spec.plan
        line = await self._api.first_log_line(spec.name, timeout=self.settings.start_timeout)
        certificate = line.removeprefix(ANNOUNCEMENT)
        is_valid = line.startswith(ANNOUNCEMENT) and await asyncio.to_thread(_is_valid, certificate)
        if not is_valid:
            log = await self._log(plan.session_id, 20)
            raise SandboxStartFailed(f"The image {spec.image} did not start the gateway:\n{log}")
        changed = await self._api.patch(
            ResourceKind.PODS,
            spec.name,
            {"metadata": {"annotations": {POD_CERTIFICATE: certificate}}},
        )
        link = await self._ensure_linked(PodInfo.read(changed))
        if plan.egress.mode != "open" and not self.settings.allow_unisolated:
            on_stage("waiting for its network policy")
            await self._until_isolated(link)
        on_stage("waiting for its action server")
        launch = spec.launch().to_message()
        await link.request("launch", launch=launch, timeout=_REQUEST_TIMEOUT)
        await self._until_it_answers(plan, PodInfo.read(changed), link)

    async def _until_isolated(self, link: PodLink) -> None:
        url = urlsplit(self._access.server)
        server = (url.hostname or "", url.port or (443 if url.scheme == "https" else 80))
        within = self.settings.policy_timeout
        targets = [list(each) for each in (server, *self.settings.probes)]
        if not await link.request(
            "blocked", targets=targets, within=within, timeout=within + _REQUEST_TIMEOUT
        ):
            raise SandboxStartFailed(
                f"The cluster does not isolate the pod: after {within:g} seconds it still reaches "
                f"the network. Apply the network policies of deploy/kubernetes/, and use a network "
                "plug-in that enforces them"
            )

    async def _until_it_answers(self, plan: SandboxPlan, found: PodInfo, link: PodLink) -> None:
        await wait_until_ready(
            plan.run_dir,
            plan.key,
            ended=self._ended(found, plan),
            within=self.settings.start_timeout,
            announced=link.until_mirrored(SOCKET),
        )

    async def _slow_start(self, spec: PodSpec, pod: JsonObject | None) -> str:
        """Why a start has taken too long, from the pod and its events."""
        within = f"The session did not start within {self.settings.start_timeout:g} seconds"
        with suppress(ApiRefused, SandboxUnreachable):
            events = [
                each
                for kind in ("Pod", "PersistentVolumeClaim")
                for each in (
                    await self._api.list(
                        ResourceKind.EVENTS,
                        fields=f"involvedObject.name={spec.name},involvedObject.kind={kind}",
                    )
                ).items
            ]
            if text := problem_in_events(events):
                return f"{within}. {text}"
        problem = None if pod is None else problem_of(pod)
        return within if problem is None else f"{within}. {problem.text}"

    async def _undo(self, session_id: SessionId) -> None:
        try:
            if (found := await self._find(session_id)) is not None:
                await self._remove(found, grace=0)
        except BasculeError as error:  # the start itself reports its cause
            logger.warning("a failed start could not be undone: %s", error.message)
        await self._unlink(session_id)
        await self._proxies.close(session_id)

    # Finding ------------------------------------------------------------------------------

    async def _all(self) -> list[PodInfo]:
        with _unreachable():
            listed = await self._api.list(ResourceKind.PODS, labels=selector(self.settings))
        return [PodInfo.read(each) for each in listed.items]

    async def _find(self, session_id: SessionId) -> PodInfo | None:
        with _unreachable():
            pod = await self._api.get(ResourceKind.PODS, pod_name(session_id))
        return None if pod is None else PodInfo.read(pod)

    async def _get_running(self, session_id: SessionId) -> PodInfo:
        found = await self._find(session_id)
        if found is None or not found.is_running:
            raise NoSuchSandbox(f"No sandbox runs for the session {session_id}")
        return found

    async def _ended(self, found: PodInfo, plan: SandboxPlan | None = None) -> str:
        """Wait until the pod has ended, and return the reason."""
        last: JsonObject | None = None
        missing = object()

        def find(pods: Mapping[str, JsonObject]) -> object | None:
            nonlocal last
            pod = pods.get(found.name)
            if pod is None or pod["metadata"]["uid"] != found.uid:
                return missing
            last = pod
            info = PodInfo.read(pod)
            return pod if info.has_ended or info.is_terminating else None

        while True:
            seen = await self._pods.wait_until(find)
            if seen is not missing:
                break
            with _unreachable():
                pod = await self._api.get(ResourceKind.PODS, found.name)
            if pod is None or pod["metadata"]["uid"] != found.uid:
                return vanished(last)
            # The watch does not have the new pod yet.
            await self._pods.wait_until(lambda pods: pods.get(found.name))
        assert last is not None
        reason = end_of(last, plan.limits if plan else None)
        log = await self._log(found.session_id, 20)
        return "\n".join(filter(None, [reason, log.rstrip()]))

    async def _log(self, session_id: SessionId, lines: int) -> str:
        try:
            with _unreachable():
                text = await self._api.log(pod_name(session_id), lines=lines)
        except SandboxUnreachable:  # its machine is gone
            return ""
        kept = (each for each in text.splitlines() if not each.startswith(ANNOUNCEMENT))
        return "".join(f"{each}\n" for each in kept)

    # Links --------------------------------------------------------------------------------

    async def _ensure_linked(self, found: PodInfo) -> PodLink:
        """The link to the pod, with the session's egress proxy. Raises `SandboxUnreachable` if the
        certificate in the pod's annotation is not one."""
        session_id = found.session_id
        if self._link_uids.get(session_id) == found.uid:
            return self._links[session_id]
        await self._unlink(session_id)
        assert self._keys is not None
        keys, run_dir = self._keys, self.settings.run_dir

        def make_tls() -> Any:
            (run_dir / session_id).mkdir(mode=0o750, parents=True, exist_ok=True)
            return client_tls(keys, certificate_of_line(found.certificate))

        try:
            tls = await asyncio.to_thread(make_tls)
        except ValueError as error:
            raise SandboxUnreachable(
                f"The pod {found.name} has no valid certificate of its gateway; start the session "
                "again"
            ) from error
        await self._proxies.open(session_id, found.egress)
        if self._link_uids.get(session_id) == found.uid:  # made by another task meanwhile
            return self._links[session_id]
        root = self._hub_sockets_dir
        sockets = hub_sockets(
            found.egress,
            hub=root / session_id / "hub.sock" if root is not None else None,
            proxy=egress_dir(run_dir, session_id) / EGRESS_SOCKET,
        )
        address = PodAddress(found.address, PORT)
        link = PodLink(address, tls, run_dir=run_dir / session_id, hub_sockets=sockets)
        self._links[session_id], self._link_uids[session_id] = link, found.uid
        link.open()
        return link

    async def _link_if_valid(self, found: PodInfo) -> None:
        """Link to a running pod. A pod with a wrong certificate must not affect other sessions; it
        is replaced at the session's next start."""
        try:
            await self._ensure_linked(found)
        except SandboxUnreachable as error:
            logger.info("%s", error.message)

    async def _unlink(self, session_id: SessionId) -> None:
        self._link_uids.pop(session_id, None)
        if (link := self._links.pop(session_id, None)) is not None:
            await link.aclose()

    async def _set_paused(self, found: PodInfo, request: str, *, is_paused: bool) -> None:
        link = await self._ensure_linked(found)
        await link.request(request, timeout=_PAUSE_TIMEOUT)
        changes = {"metadata": {"annotations": {PAUSED: "true" if is_paused else None}}}
        with _unreachable():
            await self._api.patch(ResourceKind.PODS, found.name, changes)

    # Ending -------------------------------------------------------------------------------

    async def _remove_if_old(self, found: PodInfo) -> None:
        age = datetime.now(UTC) - found.created
        if found.is_terminating or age.total_seconds() < self.settings.kept_for:
            return
        async with self._lock(found.session_id):
            now = await self._find(found.session_id)
            if now is not None and now.uid == found.uid and not now.is_running:
                await self._remove(now, grace=0)

    async def _remove(self, found: PodInfo, *, grace: float) -> None:
        """End the pod and wait until it is gone. Its last log lines are kept. A pod is never
        removed by force: its machine may still run it."""
        if not found.is_terminating or found.phase == "Running":
            text = await self._log(found.session_id, _KEPT_LINES)
            await asyncio.to_thread(_write, self._log_of(found.session_id), text)
        try:
            await self._api.delete(
                ResourceKind.PODS, found.name, grace=math.ceil(grace), uid=found.uid
            )
        except ApiRefused as refused:
            if refused.status != 409:  # 409: another pod has this name now
                raise SandboxUnreachable(refusal(refused, self._api.namespace)) from refused
        try:
            async with asyncio.timeout(math.ceil(grace) + _REMOVAL_TIMEOUT):
                await self._until_gone(found)
        except TimeoutError:
            raise SandboxUnreachable(
                f"The pod {found.name} does not end: its machine {found.node or '?'} may not answer"
            ) from None
        await self._unlink(found.session_id)
        await self._proxies.close(found.session_id)

    async def _until_gone(self, found: PodInfo) -> None:
        def find(pods: Mapping[str, JsonObject]) -> bool | None:
            pod = pods.get(found.name)
            return True if pod is None or pod["metadata"]["uid"] != found.uid else None

        await self._pods.wait_until(find)

    def _log_of(self, session_id: SessionId) -> Path:
        return self.settings.sessions_dir / session_id / LOG


@contextmanager
def _unreachable() -> Iterator[None]:
    """Turns `ApiRefused` into `SandboxUnreachable`."""
    try:
        yield
    except ApiRefused as refused:
        raise SandboxUnreachable(f"The cluster refused: {refused.message}") from refused


def _ignore_stage(_stage: str) -> None: ...


def _is_valid(certificate: str) -> bool:
    try:
        certificate_of_line(certificate)
    except ValueError:
        return False
    return True


def _make_dirs(settings: KubernetesSettings) -> None:
    settings.sessions_dir.mkdir(parents=True, exist_ok=True)
    settings.run_dir.mkdir(parents=True, exist_ok=True)


def _write(log: Path, text: str) -> None:
    if log.parent.is_dir():
        log.write_text(text, encoding="utf-8", errors="replace")


def _read(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
