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
from .hub_state import HubRuns, alone, announced
from .hub_target import HubTarget
from .user_dirs import make_runtime_dir, runtime_dir

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bascule.link.sessions import HubSession, SessionCalls

    from .loop import LoopThread

OnStage = Callable[[str], None]

_NO_LIMITS: Final = {"memory": None, "cpus": None, "processes": None}
"""It is the machine of whoever asks."""


@dataclass(frozen=True, slots=True)
class UpRequest:
    """The settings of a folder's session."""

    folder: Path
    shells: str | None = None
    egress: str | None = None
    """None of both: as the session had it before, or by default."""
    no_network: str = ""
    """Why it can have no network; else empty."""

    @property
    def name(self) -> str:
        """For people: the folder's, or of one that is called as any is, that of the one above."""
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
        """What is to be another way in a session that was made before."""
        wanted: dict[str, Any] = {}
        if self.shells is not None and self.shells != session.metadata["shells"]:
            wanted["shells"] = self.shells
        had = session.metadata["egress"]["mode"]
        egress = "off" if self.no_network and had == "open" else self.egress or had
        if egress != had:
            wanted["egress"] = {"mode": egress}
        return wanted


@contextlib.contextmanager
def hub_for(
    folder: Path, loop: LoopThread, *, allow_unisolated: bool
) -> Iterator[tuple[HubTarget, bool]]:
    """The folder's own hub, in `loop`, while this is open; or the one that another `up` of the
    same folder has, who then keeps it. Also whether it is ours.

    It has nothing in common with a hub of `serve` but the token: what it may do here, that one
    should not.
    """
    settings = load(None, os.environ, {})
    token = os.environ.get("BASCULE_TOKEN") or admin_token(settings.state())
    ours = _ours(settings, folder, allow_unisolated)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(alone(ours.state(), folder=folder))
        except HubRuns as runs:
            yield HubTarget(runs.url, token), False
            return
        stack.callback(shutil.rmtree, ours.run(), ignore_errors=True)
        hub = stack.enter_context(_own_hub(ours, token, loop))
        stack.enter_context(announced(ours.state(), hub.local_url))
        yield HubTarget(hub.local_url, token), True


def _ours(settings: HubFile, folder: Path, allow_unisolated: bool) -> HubFile:
    """Whoever starts it stands in that folder, and may have it as a session."""
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
    """On the port of the settings; if that is only the usual one and taken, on any."""
    from .machine import checks
    from .mounts import adapter_mounts
    from .spawners import make_spawners

    given = settings.settings(token)

    def made(port: int) -> Hub:
        return Hub(
            replace(given, port=port),
            # Who is root here may have root's folder. In a container the session would be root.
            spawners=make_spawners(settings, in_roots_folders=os.geteuid() == 0),
            mounts=adapter_mounts(),
            checks=checks,
        )

    with contextlib.ExitStack() as stack:
        try:
            hub = stack.enter_context(loop.hold(made(given.port)))
        except InvalidSetting:
            if "port" in settings.model_fields_set:
                raise
            hub = stack.enter_context(loop.hold(made(0)))
        yield hub


@dataclass(frozen=True, slots=True)
class UpSession:
    """A running session and its addresses."""

    session: HubSession
    address: str
    """Shows it in any browser of this machine, once; then the browser is signed in. Empty: there
    is nothing to show it with."""
    own_address: str = ""
    """The same for browsers of this user alone, to start one with."""
    no_vscode: str = ""
    """Why it has no VS Code, and what to do about it; else empty."""
    no_page: str = ""
    """The same of the hub's page."""
    no_network: str = ""
    """The same of a network: why it reaches none."""


@contextlib.contextmanager
def session_of(
    request: UpRequest, hub: HubTarget, loop: LoopThread, *, is_ours: bool, on_stage: OnStage
) -> Iterator[UpSession]:
    """The folder's session: the one it had before, or a new one. If the hub is ours, leaving stops
    it and all others that the hub has, such as a demo's: none is left running without a hub.

    Stopped they keep their files and what VS Code knows of them, text nobody saved too.
    """
    up = loop.start(_begin(request, hub, on_stage)).result()
    try:
        yield up
    finally:
        if is_ours:
            loop.start(_stop_all(hub)).result()


async def _begin(request: UpRequest, hub: HubTarget, on_stage: OnStage) -> UpSession:
    from bascule.link.sessions import SessionCalls

    with hub.told_how_to_start():
        async with SessionCalls(hub.url, hub.token) as calls:
            known = [
                each for each in await calls.sessions() if _is_of(request.folder, each.metadata)
            ]
            if known:
                session = await _taken_up(request, known[0], calls)
            else:
                session = await calls.create(request.body())
            session = await calls.until_ready(session.id, on_stage=on_stage)
            no_vscode, no_page = await asyncio.to_thread(lambda: (_lack_of_vscode(), _no_page()))
            onward = _shown_at(session, has_vscode=not no_vscode, has_page=not no_page)
            address = await calls.sign_in_address(onward) if onward else ""
            own = await calls.sign_in_address(onward, same_user=True) if onward else ""
    has_network = session.metadata["egress"]["mode"] != "off"
    no_network = "" if has_network else request.no_network or "enable it with --egress open"
    return UpSession(session, address, own, no_vscode, no_page, no_network)


async def _taken_up(request: UpRequest, known: HubSession, calls: SessionCalls) -> HubSession:
    """One that runs, because another `up` has it, stays as it is."""
    changes = request.changes(known) if known.state in ("stopped", "failed") else {}
    return await calls.resume(known.id, changes)


def _shown_at(session: HubSession, *, has_vscode: bool, has_page: bool) -> str:
    """The page with VS Code in it; where one of the two is missing, the other."""
    if has_vscode:
        return f"/watch/{session.id}" if has_page else urlsplit(session.vscode_url).path
    return f"/sessions/{session.id}" if has_page else ""


async def _stop_all(hub: HubTarget) -> None:
    from bascule.link.sessions import SessionCalls

    async with SessionCalls(hub.url, hub.token) as calls:

        async def stop(session_id: str) -> None:
            with contextlib.suppress(NoSuchSession):  # somebody has just removed it
                await calls.stop(session_id)

        await asyncio.gather(*(stop(each.id) for each in await calls.sessions()))


def _is_of(folder: Path, metadata: Mapping[str, Any]) -> bool:
    return bool(metadata["workspace"].get("folder") == str(folder))


def _no_page() -> str:
    from bascule.hub.web.page import is_built

    return "" if is_built() else "not built; in a clone, run `make web` (needs Node 20 or newer)"


def _lack_of_vscode() -> str:
    from . import editor

    try:
        editor.find().ensure_complete()
        editor.extension()
    except MissingTool as error:
        return error.message
    return ""
