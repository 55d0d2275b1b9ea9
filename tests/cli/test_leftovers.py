"""`bascule session rm --all` leaves the machine as it was, and so does the hub that ends."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from bascule.runtime.spawn import session_paths
from bascule.runtime.spawn.local.machine import hash_of

from .processes import bascule, environment, hub

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),  # a dozen commands, one after the other
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]

KEPT = ("hub.sqlite", "hub.sqlite-shm", "hub.sqlite-wal", "hub-address", "logs/")
"""What a hub keeps of sessions that are gone: who did what, and what they said last."""


@dataclass(frozen=True)
class HubResources:
    """What a hub in `place` and its sessions have of this machine."""

    processes: frozenset[str]
    mounts: frozenset[str]
    cgroups: frozenset[str]
    sockets: frozenset[str]
    files: frozenset[str]
    users: str


def traces_of(place: Path) -> HubResources:
    name = str(place)
    return HubResources(
        processes=frozenset(
            f"{each.pid} {each.name()}" for each in psutil.process_iter() if belongs(each, name)
        ),
        mounts=frozenset(lines("/proc/self/mountinfo", name)),
        cgroups=frozenset(cgroups_of(place)),
        sockets=frozenset(line.split()[-1] for line in lines("/proc/net/unix", name)),
        files=frozenset(
            str(file.relative_to(place))
            for file in place.rglob("*")
            if not str(file).endswith(KEPT) and "/logs/" not in str(file)
        ),
        users=Path("/etc/passwd").read_text() + Path("/etc/group").read_text(),
    )


def belongs(process: psutil.Process, name: str) -> bool:
    """By its words, its environment, or what it is shown of the file system."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        parts = (" ".join(process.cmdline()), str(process.environ()))
        shown = lines(f"/proc/{process.pid}/mountinfo", name)
    except (psutil.Error, OSError):
        return False
    is_inside = any(line.split()[4] == session_paths.RUN_DIR for line in shown)
    return is_inside or any(name in part for part in parts)


def lines(file: str, name: str) -> list[str]:
    return [line for line in Path(file).read_text().splitlines() if name in line]


def cgroups_of(place: Path) -> list[str]:
    tag = f"bascule-{hash_of(str(place / 'bascule/warden')):08x}"
    return [path for path, _, _ in os.walk("/sys/fs/cgroup") if f"/{tag}" in path]


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bsc-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def test_removing_every_session_leaves_the_machine_as_it_was(place: Path) -> None:
    folder = place / "theirs"
    folder.mkdir()
    (folder / "file").write_text("theirs\n")
    if os.geteuid() == 0:
        os.chown(folder, 54321, 54321)
    env = environment(XDG_STATE_HOME=str(place), BASCULE_WORKSPACE_ROOTS=str(folder), MARK="a word")

    def session(*words: str) -> str:
        done = bascule("session", *words, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    untouched = traces_of(place)
    with hub(env):
        session("create", "--name", "zero")
        session("exec", "zero", "true")
        session("rm", "zero")  # whatever the first one makes for all is there now
        before = traces_of(place)
        first = session("create", "--name", "first", "--secret", "MARK", "--shells", "tmux")
        second = session("create", "--name", "second", "--folder", str(folder))
        for name in ("first", "second"):
            session(
                "exec",
                name,
                "setsid sleep 1000 >/dev/null 2>&1 & python3 -m http.server 80"
                " --bind 127.0.0.1 >/dev/null 2>&1 & mkdir -p a/b; echo made >a/b/made",
            )
        session("exec", "second", "cp file copy; chmod 0 a/b")
        session("pause", "first")
        during = traces_of(place)
        assert len(during.processes) > len(before.processes) + 5
        assert during.sockets > before.sockets
        assert any(first in each for each in during.files)
        assert set(session("rm", "--all").split()) == {first, second}
        (folder / "a/b").chmod(0o755)  # so that an ordinary user can list and remove it too

        after = traces_of(place)
        assert after.processes == before.processes
        assert after.mounts == before.mounts
        assert after.cgroups == before.cgroups
        assert after.sockets == before.sockets
        assert after.users == before.users
        assert after.files - before.files == {
            "theirs/copy",
            "theirs/a",
            "theirs/a/b",
            "theirs/a/b/made",
        }
        assert session("list").startswith("There are no sessions")
    assert (folder / "copy").read_text() == "theirs\n"

    ended = traces_of(place)
    assert (ended.processes, ended.mounts, ended.cgroups, ended.sockets) == (
        untouched.processes,
        untouched.mounts,
        untouched.cgroups,
        untouched.sockets,
    )
