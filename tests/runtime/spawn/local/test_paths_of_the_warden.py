"""The hub's user owns the directories around sessions and cannot turn root's warden against others.

Each test is an attack by whoever has the hub's rights: it asks the warden in the hub's place and
renames, links and exchanges what the hub's user may.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bascule.core.errors import AccessDenied, BasculeError, SandboxStartFailed
from bascule.core.sessions import Egress, SandboxPlan, new_session_id
from bascule.runtime.spawn.local import LocalSettings, LocalSpawner
from bascule.runtime.spawn.local.safe_open import open_beneath, open_real
from bascule.runtime.spawn.vscode import SharedVSCode
from tests.contracts.spawner import client

from .wardens import SOMEBODY, settings_in, warden_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes things for other users"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]
_RENAME_EXCHANGE = 2


@pytest.fixture
def place() -> Iterator[Path]:
    """Root's, with a directory of the hub's user that has all of the hub's in it."""
    path = Path(tempfile.mkdtemp(prefix="bsc-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def settings(place: Path) -> LocalSettings:
    hub = place / "hub"
    for each in (hub, hub / "sessions", hub / "run", hub / "folders"):
        each.mkdir(mode=0o711)
        os.chown(each, SOMEBODY, SOMEBODY)
    return replace(
        settings_in(hub, hub_uid=SOMEBODY),
        state_dir=place / "warden",
        workspace_roots=(hub / "folders",),
    )


@pytest.fixture
def plan(settings: LocalSettings) -> SandboxPlan:
    session_id = new_session_id()
    directory = settings.sessions_dir / session_id
    directory.mkdir(mode=0o700)
    os.chown(directory, SOMEBODY, SOMEBODY)
    return SandboxPlan(
        session_id=session_id,
        directory=directory,
        run_dir=settings.run_dir / session_id,
        key="a-key",
    )


@asynccontextmanager
async def asking(settings: LocalSettings, place: Path) -> AsyncIterator[LocalSpawner]:
    async with (
        warden_of(0, settings, place / "warden.sock") as path,
        LocalSpawner(settings, warden=path) as spawner,
    ):
        yield spawner


class Victim:
    """A tree of root's that looks like the sessions' own, with the plan's session in it."""

    def __init__(self, place: Path, plan: SandboxPlan) -> None:
        self.root = place / "victim"
        self.session = self.root / plan.session_id
        for name in ("home", "state", "workspace"):
            (self.session / name).mkdir(parents=True)
            (self.session / name / "file").write_text("precious")
        self._before = self._look()

    def _look(self) -> dict[str, tuple[int, int, int]]:
        found = [self.root, *sorted(self.root.rglob("*"))]
        stats = {str(each): each.lstat() for each in found}
        return {name: (s.st_uid, s.st_gid, s.st_mode) for name, s in stats.items()}

    def ensure_untouched(self) -> None:
        assert self._look() == self._before


def exchange(path: Path, other: Path) -> None:
    """What the hub's user can do in a directory of its own: put something else there."""
    path.rename(path.with_name(path.name + ".old"))
    path.symlink_to(other)
    os.lchown(path, SOMEBODY, SOMEBODY)


Act = Callable[[LocalSpawner, SandboxPlan], Awaitable[object]]
ACTS: dict[str, Act] = {
    "remove": lambda spawner, plan: spawner.remove(plan.directory),
    "disk": lambda spawner, plan: spawner.disk(plan.directory),
    "start": lambda spawner, plan: spawner.start(plan),
}


@pytest.mark.parametrize("act", ACTS)
async def test_a_link_at_sessions_dir_is_refused(
    place: Path, settings: LocalSettings, plan: SandboxPlan, act: str
) -> None:
    victim = Victim(place, plan)
    async with asking(settings, place) as spawner:
        await spawner.open()
        exchange(settings.sessions_dir, victim.root)
        with pytest.raises(AccessDenied, match=f"symlink {settings.sessions_dir}"):
            await ACTS[act](spawner, plan)
        assert await spawner.running() == []
    victim.ensure_untouched()


@pytest.mark.parametrize("act", ACTS)
async def test_a_link_above_sessions_dir_is_refused(
    place: Path, settings: LocalSettings, plan: SandboxPlan, act: str
) -> None:
    victim = Victim(place, plan)
    inner = settings.sessions_dir / "inner"
    deeper = replace(settings, sessions_dir=inner / "sessions")
    shutil.copytree(settings.sessions_dir, inner / "sessions", ignore=lambda *_: ["inner"])
    os.chown(inner, SOMEBODY, SOMEBODY)
    os.chown(inner / "sessions", SOMEBODY, SOMEBODY)
    (place / "sessions").symlink_to(victim.root)
    plan = replace(plan, directory=deeper.sessions_dir / plan.session_id)
    async with asking(deeper, place) as spawner:
        await spawner.open()
        exchange(inner, place)
        with pytest.raises(AccessDenied, match="symlink"):
            await ACTS[act](spawner, plan)
    victim.ensure_untouched()


@pytest.mark.parametrize("act", ["remove", "disk", "start"])
async def test_a_link_in_place_of_a_session_is_refused(
    place: Path, settings: LocalSettings, plan: SandboxPlan, act: str
) -> None:
    victim = Victim(place, plan)
    async with asking(settings, place) as spawner:
        await spawner.open()
        exchange(plan.directory, victim.session)
        with pytest.raises(AccessDenied):
            await ACTS[act](spawner, plan)
    victim.ensure_untouched()


async def test_swapping_directories_in_a_loop_never_escapes_sessions_dir(
    place: Path, settings: LocalSettings, plan: SandboxPlan
) -> None:
    """A race between the look and the act: two names change places all the time."""
    victim = Victim(place, plan)
    decoy = settings.sessions_dir.with_name("decoy")
    decoy.symlink_to(victim.root)
    async with asking(settings, place) as spawner:
        await spawner.open()
        with exchanging(settings.sessions_dir, decoy):
            for _ in range(200):
                with contextlib.suppress(BasculeError):
                    await spawner.remove(plan.directory)
                with contextlib.suppress(BasculeError):
                    await spawner.start(replace(plan, folder=place / "nowhere"))
    victim.ensure_untouched()


@contextlib.contextmanager
def exchanging(first: Path, second: Path) -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True)
    over = threading.Event()

    def exchange() -> None:
        names = os.fsencode(first), os.fsencode(second)
        while not over.is_set():
            assert libc.renameat2(-100, names[0], -100, names[1], _RENAME_EXCHANGE) == 0

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


async def test_a_directory_of_another_user_is_rejected_as_a_session(
    place: Path, settings: LocalSettings, plan: SandboxPlan
) -> None:
    """One that everybody may move can be put in place of a session's."""
    theirs = settings.sessions_dir / new_session_id()
    (theirs / "kept").mkdir(parents=True)
    os.chown(theirs, SOMEBODY + 1, SOMEBODY + 1)
    async with asking(settings, place) as spawner:
        await spawner.open()
        with pytest.raises(AccessDenied, match=f"belongs to the user {SOMEBODY + 1}"):
            await spawner.remove(theirs)
        with pytest.raises(AccessDenied, match="not directly in"):
            await spawner.remove(plan.directory / "home")
        with pytest.raises(AccessDenied, match="not directly in"):
            await spawner.remove(settings.sessions_dir)
    assert (theirs / "kept").is_dir()


async def test_files_of_root_are_not_chowned_to_a_session(
    place: Path, settings: LocalSettings, plan: SandboxPlan
) -> None:
    """As a hard link to one would be, on a machine that lets users make such links."""
    (plan.directory / "workspace").mkdir()
    precious = place / "precious"
    precious.write_text("root's")
    os.link(precious, plan.directory / "workspace" / "link")
    os.chown(plan.directory / "workspace", SOMEBODY, SOMEBODY)
    async with asking(settings, place) as spawner:
        await spawner.open()
        await spawner.start(plan)
        await spawner.stop(plan.session_id)
    assert precious.stat().st_uid == 0


async def test_a_symlink_at_run_dir_is_rejected_without_a_mount_or_session(
    place: Path, settings: LocalSettings, plan: SandboxPlan
) -> None:
    victim = Victim(place, plan)
    exchange(settings.run_dir, victim.root)
    async with asking(settings, place) as spawner:
        with pytest.raises(AccessDenied, match=f"symlink {settings.run_dir}"):
            await spawner._request("look")
    assert str(victim.root) not in Path("/proc/self/mountinfo").read_text()
    victim.ensure_untouched()


async def test_a_symlink_planted_after_the_start_is_not_mounted_over_or_emptied(
    place: Path, settings: LocalSettings, plan: SandboxPlan
) -> None:
    """The parent of `run_dir` is the hub's, so all of it can be exchanged while a session runs."""
    above = settings.run_dir / "above"
    settings = replace(settings, run_dir=above / "run")
    for each in (above, settings.run_dir):
        each.mkdir(mode=0o711)
        os.chown(each, SOMEBODY, SOMEBODY)
    plan = replace(plan, run_dir=settings.run_dir / plan.session_id)
    victim = Victim(place, plan)
    (place / "run").symlink_to(victim.root)
    async with asking(settings, place) as spawner:
        await spawner.open()
        await spawner.start(plan)
        exchange(above, place)
        with contextlib.suppress(BasculeError):
            await spawner.stop(plan.session_id)
        with contextlib.suppress(BasculeError):
            await spawner.start(plan)
        with contextlib.suppress(BasculeError):
            await spawner.stop(plan.session_id)
        above.unlink()
        (above.with_name("above.old")).rename(above)
        await spawner.running()
        await spawner.stop(plan.session_id)
        assert await spawner.running() == []
    victim.ensure_untouched()
    assert str(settings.run_dir) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.parametrize("what", ["egress", "hub", "vscode", "folder"])
async def test_a_symlink_in_place_of_a_mounted_path_is_rejected(
    place: Path, settings: LocalSettings, plan: SandboxPlan, what: str
) -> None:
    """Root's warden would show it a directory that is closed to all others."""
    secret = place / "secret"
    secret.mkdir(mode=0o700)
    (secret / "inner").mkdir(mode=0o755)
    (secret / "inner" / "file").write_text("secret")
    link = place / "hub" / "link"
    link.symlink_to(secret / "inner")
    os.lchown(link, SOMEBODY, SOMEBODY)
    match what:
        case "egress":
            plan = replace(plan, egress=Egress(mode="proxy"))
        case "hub":
            plan = replace(
                plan, hub_socket=settings.run_dir / "doors" / plan.session_id / "hub.sock"
            )
        case "vscode":
            settings = replace(settings, vscode=SharedVSCode(link, link / "extensions"))
        case _:
            (place / "hub" / "folders").rmdir()
            link.rename(place / "hub" / "folders")
            plan = replace(plan, folder=place / "hub" / "folders")
    async with asking(settings, place) as spawner:
        await spawner.open()
        if what == "egress":
            (settings.run_dir / "egress" / plan.session_id).symlink_to(secret / "inner")
        if what == "hub":
            (settings.run_dir / "doors").mkdir()
            (settings.run_dir / "doors" / plan.session_id).symlink_to(secret / "inner")
        with pytest.raises((AccessDenied, SandboxStartFailed)):
            await start_by_the_warden(spawner, plan)
        assert await spawner.running() == []


async def start_by_the_warden(spawner: LocalSpawner, plan: SandboxPlan) -> None:
    """As an attacker asks, who opens no proxy before."""
    from bascule.runtime.spawn.local.messages import plan_to_wire

    await spawner._request("start", plan=plan_to_wire(plan))


async def test_symlinks_of_root_in_a_path_are_followed(
    place: Path, settings: LocalSettings, plan: SandboxPlan
) -> None:
    """As `/var/lib/bascule` that an operator moved to another disk."""
    (place / "elsewhere").symlink_to("hub")
    moved = place / "elsewhere"
    settings = replace(settings, sessions_dir=moved / "sessions", run_dir=moved / "run")
    plan = replace(
        plan,
        directory=settings.sessions_dir / plan.session_id,
        run_dir=settings.run_dir / plan.session_id,
    )
    async with asking(settings, place) as spawner:
        await spawner.open()
        await spawner.start(plan)
        async with client(plan) as runtime:
            assert (await runtime.run("echo up")).content == "up\n"
        await spawner.stop(plan.session_id)
        await spawner.remove(plan.directory)
    assert not plan.directory.exists()


# Opening ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["own", "shared", "loop", "file", "relative", "up"])
def test_paths_that_other_users_could_redirect_are_rejected(place: Path, way: str) -> None:
    path = place / "a" / "b"
    (place / "a").mkdir()
    match way:
        case "own":  # in root's directory, but another's link
            path.symlink_to("/etc")
            os.lchown(path, SOMEBODY, SOMEBODY)
        case "shared":  # root's link, where others may rename
            path.symlink_to("/etc")
            (place / "a").chmod(0o777)
        case "loop":
            path.symlink_to(path)
        case "file":
            path.write_text("")
        case "relative":
            path = Path("etc")
        case _:
            path = Path("/etc/../etc")
    with pytest.raises(AccessDenied):
        open_real(path)


def test_symlinks_of_root_are_followed_even_through_parent_directories(place: Path) -> None:
    (place / "a" / "b").mkdir(parents=True)
    (place / "c").symlink_to("a/../a/b/.")
    (place / "d").symlink_to(place / "c")
    opened = open_beneath(place / "d", place / "d")
    try:
        assert os.path.samestat(os.fstat(opened), (place / "a" / "b").stat())
        assert stat.S_ISDIR(os.fstat(opened).st_mode)
    finally:
        os.close(opened)


async def test_a_pipe_in_place_of_a_directory_does_not_block_the_warden(
    place: Path, settings: LocalSettings, plan: SandboxPlan
) -> None:
    """A pipe in place of a directory is refused, and not waited for."""
    os.mkfifo(settings.sessions_dir / "fifo0000")
    async with asking(settings, place) as spawner, asyncio.timeout(60):
        await spawner.open()
        with pytest.raises(AccessDenied):
            await spawner.remove(settings.sessions_dir / "fifo0000")
