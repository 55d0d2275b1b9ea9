"""The hub and session of `bascule up`: one session per folder."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from bascule.core.errors import InvalidSetting, MissingTool, NoSuchSession
from bascule.hub import Hub
from bascule.hub.tokens import admin_token

from .hub_settings import HubFile, load
from .hub_state import HubAlreadyRunning, lock_state, published_address
from .hub_target import HubTarget
from .user_dirs import make_runtime_dir, runtime_dir

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bascule.link.sessions import HubSession, SessionCalls

    from .loop import LoopThread

OnStage = Callable[[str], None]

_NO_LIMITS: Final = {"memory": None, "cpus": None, "processes": None}
"""A session of `up` has no limits, because it runs on the user's own machine."""


@dataclass(frozen=True, slots=True)
class UpRequest:
    """The settings of a folder's session."""

    folder: Path
    shells: str | None = None
    egress: str | None = None
    """`shells` and `egress`: None keeps the setting of an existing session, or uses the default."""
    no_network: str = ""
    """Why the session cannot have network access; empty if it can."""

    @property
    def name(self) -> str:
        """The display name: the folder's name, or its parent's name if the folder is called
        `workspace`."""
        is_any = self.folder.name in ("", "workspace") and self.folder.parent.name
        return self.folder.parent.name if is_any else self.folder.name

    def body(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "shells": self.shells or "pty",
            "egress": {"mode": self.egress or ("off" if self.no_network else "open")},
            "limits": _NO_LIMITS,
            "workspace": {"kind": "folder", "folder": str(self.folder)},
        }

    def changes(self, session: HubSession) -> dict[str, Any]:
        """The settings to change in an existing session."""
        changes: dict[str, Any] = {}
        if self.shells is not None and self.shells != session.metadata["shells"]:
            changes["shells"] = self.shells
        current = session.metadata["egress"]["mode"]
        egress = "off" if self.no_network and current == "open" else self.egress or current
        if egress != current:
            changes["egress"] = {"mode": egress}
        return changes


@contextlib.contextmanager
def hub_for(
    folder: Path, loop: LoopThread, *, allow_unisolated: bool
) -> Iterator[tuple[HubTarget, bool]]:
    """The folder's hub, and whether this process started it.

    Starts the hub in `loop` while open, unless another `up` of the same folder has started it. The
    hub shares only its token with a hub of `serve`, which must not have the same permissions.
    """
    settings = load(None, os.environ, {})
    token = os.environ.get("BASCULE_TOKEN") or admin_token(settings.state())
    hub_file = _hub_settings(settings, folder, allow_unisolated)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock_state(hub_file.state(), folder=folder))
        except HubAlreadyRunning as running:
            yield HubTarget(running.url, token), False
            return
        stack.callback(shutil.rmtree, hub_file.run(), ignore_errors=True)
        hub = stack.enter_context(_own_hub(hub_file, token, loop))
        stack.enter_context(published_address(hub_file.state(), hub.local_url))
        yield HubTarget(hub.local_url, token), True


def _hub_settings(settings: HubFile, folder: Path, allow_unisolated: bool) -> HubFile:
    """The settings of the folder's hub. The user chose this folder, so it is an allowed workspace
    root."""
    make_runtime_dir()
    name = f"up-{hashlib.sha256(bytes(folder)).hexdigest()[:12]}"
    changes = {
        "state_dir": settings.state() / name,
        "run_dir": (settings.run_dir or runtime_dir()) / name,
        "workspace_roots": (*settings.workspace_roots, folder),
        "allow_unisolated": settings.allow_unisolated or allow_unisolated,
    }
    return settings.model_copy(update=changes)


@contextlib.contextmanager
def _own_hub(settings: HubFile, token: str, loop: LoopThread) -> Iterator[Hub]:
    """Run the hub on the port of the settings. If the default port is in use, use any free port."""
    from .machine import checks
    from .mounts import adapter_mounts
    from .spawners import make_spawners

    hub_settings = settings.settings(token)

    def make_hub(port: int) -> Hub:
        return Hub(
            replace(hub_settings, port=port),
            # A user who is root may open root's folders. This applies to the spawner `local` only:
            # in a container the session would be root.
            spawners=make_spawners(settings, in_roots_folders=os.geteuid() == 0),
            mounts=adapter_mounts(),
            checks=checks,
        )

    with contextlib.ExitStack() as stack:
        try:
            hub = stack.enter_context(loop.hold(make_hub(hub_settings.port)))
        except InvalidSetting:
            if "port" in settings.model_fields_set:
                raise
            hub = stack.enter_context(loop.hold(make_hub(0)))
        yield hub


@dataclass(frozen=True, slots=True)
class UpSession:
    """A running session and its addresses."""

    session: HubSession
    address: str
    """Opens the session in a browser on this machine and signs the browser in. It works once.
    Empty: neither VS Code nor the hub's page is available."""
    own_address: str = ""
    """The same for browsers of this user only. `up` opens the browser with it."""
    no_vscode: str = ""
    """Why VS Code is not available, with advice; else empty."""
    no_page: str = ""
    """Why the hub's page is not available, with advice; else empty."""
    no_network: str = ""
    """Why the session has no network access; else empty."""


@contextlib.contextmanager
def session_of(
    request: UpRequest, hub: HubTarget, loop: LoopThread, *, is_ours: bool, on_stage: OnStage
) -> Iterator[UpSession]:
    """The folder's existing session, or a new one.

    If `is_ours`, leaving stops all sessions of the hub, so that none runs without a hub. Stopped
    sessions keep their files and the state of VS Code, including unsaved text.
    """
    up = loop.start(_open_session(request, hub, on_stage)).result()
    try:
        yield up
    finally:
        if is_ours:
            loop.start(_stop_all(hub)).result()


async def _open_session(request: UpRequest, hub: HubTarget, on_stage: OnStage) -> UpSession:
    from bascule.link.sessions import SessionCalls

    with hub.explaining_unreachable_hub():
        async with SessionCalls(hub.url, hub.token) as calls:
            known = [
                each
                for each in await calls.sessions()
                if _uses_folder(request.folder, each.metadata)
            ]
            if known:
                session = await _resume(request, known[0], calls)
            else:
                session = await calls.create(request.body())
            session = await calls.until_ready(session.id, on_stage=on_stage)
            no_vscode, no_page = await asyncio.to_thread(lambda: (_missing_vscode(), _no_page()))
            path = _start_path(session, has_vscode=not no_vscode, has_page=not no_page)
            address = await calls.sign_in_address(path) if path else ""
            own = await calls.sign_in_address(path, same_user=True) if path else ""
    has_network = session.metadata["egress"]["mode"] != "off"
    no_network = "" if has_network else request.no_network or "enable it with --egress open"
    return UpSession(session, address, own, no_vscode, no_page, no_network)


async def _resume(request: UpRequest, known: HubSession, calls: SessionCalls) -> HubSession:
    """Resume the session. If it runs, its settings stay unchanged: another `up` uses it."""
    changes = request.changes(known) if known.state in ("stopped", "failed") else {}
    return await calls.resume(known.id, changes)


def _start_path(session: HubSession, *, has_vscode: bool, has_page: bool) -> str:
    """The path to open: the hub's page with VS Code, or one of them if the other is missing."""
    if has_vscode:
        return f"/watch/{session.id}" if has_page else urlsplit(session.vscode_url).path
    return f"/sessions/{session.id}" if has_page else ""


async def _stop_all(hub: HubTarget) -> None:
    from bascule.link.sessions import SessionCalls

    async with SessionCalls(hub.url, hub.token) as calls:

        async def stop(session_id: str) -> None:
            with contextlib.suppress(NoSuchSession):  # it was removed meanwhile
                await calls.stop(session_id)

        await asyncio.gather(*(stop(each.id) for each in await calls.sessions()))


def _uses_folder(folder: Path, metadata: Mapping[str, Any]) -> bool:
    return bool(metadata["workspace"].get("folder") == str(folder))


def _no_page() -> str:
    from bascule.hub.web.page import is_built

    return "" if is_built() else "not built; in a clone, run `make web` (needs Node 20 or newer)"


def _missing_vscode() -> str:
    from . import editor

    try:
        editor.find().ensure_complete()
        editor.extension()
    except MissingTool as error:
        return error.message
    return ""
