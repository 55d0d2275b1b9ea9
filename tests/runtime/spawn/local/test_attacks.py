"""Attacks from inside a session of the spawner `local`, of every kind it has."""

from __future__ import annotations

import ctypes
import os
import platform
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bascule.core.errors import AccessDenied
from bascule.core.sessions import SandboxPlan, new_session_id
from bascule.runtime.remote import RemoteRuntime
from bascule.runtime.spawn.local import LocalSpawner
from tests.contracts.spawner import client, server_of
from tests.runtime.spawn.attacks.report import SET_ID, attacked

from .wardens import SOMEBODY, settings_in, warden_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes things for other users"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]

PERSON = 12345
"""An ordinary user of the machine, and their group."""


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bsc-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def folder(place: Path) -> Path:
    """A folder of root's."""
    made = place / "project"
    made.mkdir()
    (made / "code.py").write_text("print(1)\n")
    (made / "code.py").chmod(0o600)
    return made


@asynccontextmanager
async def session(
    place: Path, *, warden: int = 0, hub_uid: int | None = None, **given: object
) -> AsyncIterator[tuple[SandboxPlan, RemoteRuntime]]:
    """A session that runs, started by a warden that is the user `warden`, for a hub that is the
    user `hub_uid`; None: the same."""
    settings = settings_in(place, allow_root=True, hub_uid=hub_uid)
    session_id = new_session_id()
    plan = SandboxPlan(
        session_id=session_id,
        directory=place / "sessions" / session_id,
        run_dir=place / "run" / session_id,
        key=secrets.token_urlsafe(16),
        **given,  # type: ignore[arg-type]
    )
    for each in (place / "sessions", place / "run", plan.directory):
        each.mkdir(exist_ok=True)
        os.chown(each, place.stat().st_uid, -1)
    if warden == 0:
        async with LocalSpawner(settings) as spawner, _started(spawner, plan) as runtime:
            yield plan, runtime
        return
    subprocess.run(["chown", "-R", f"{warden}:{warden}", place], check=True)
    async with (
        warden_of(warden, settings, place / "warden.sock") as path,
        LocalSpawner(settings, warden=path) as spawner,
        _started(spawner, plan) as runtime,
    ):
        yield plan, runtime


@asynccontextmanager
async def _started(spawner: LocalSpawner, plan: SandboxPlan) -> AsyncIterator[RemoteRuntime]:
    await spawner.open()
    await spawner.start(plan)
    try:
        async with client(plan) as runtime:
            yield runtime
    finally:
        await spawner.stop(plan.session_id, grace=1)


def owners_of(pid: int) -> set[str]:
    """Real, effective, saved and file-system UID, as the host counts."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return set(next(line for line in lines if line.startswith("Uid:")).split()[1:])


# The list ---------------------------------------------------------------------------------


async def test_a_session_in_a_folder_of_root_gains_no_rights(place: Path, folder: Path) -> None:
    async with session(place, folder=folder) as (plan, runtime):
        report = await attacked(runtime, place.name)
        server = owners_of(server_of(plan))
    assert report.gained() == {}
    assert "0" not in server
    assert report.seen["seccomp"] == "2"


async def test_a_session_in_a_users_folder_gains_no_rights(place: Path, folder: Path) -> None:
    os.chown(folder, PERSON, PERSON)
    async with session(place, folder=folder) as (plan, runtime):
        report = await attacked(runtime, place.name)
        server = owners_of(server_of(plan))
    assert report.gained() == {}
    assert not {"0", str(PERSON)} & server


async def test_a_session_whose_user_is_named_root_gains_no_rights(
    place: Path, folder: Path
) -> None:
    async with session(place, folder=folder, user="root") as (plan, runtime):
        report = await attacked(runtime, place.name)
        server = owners_of(server_of(plan))
    assert report.gained() == {}
    assert report.seen["uid"] == 0
    assert "0" not in server


async def test_a_session_with_its_own_workspace_gains_only_files_of_its_leased_uid(
    place: Path,
) -> None:
    async with session(place) as (_, runtime):
        report = await attacked(runtime, place.name)
    assert report.gained("set_id_files") == {}
    assert set(report.attacks["set_id_files"]) <= set(SET_ID)


async def test_a_session_of_an_unprivileged_warden_gains_no_rights(place: Path) -> None:
    async with session(place, warden=SOMEBODY) as (_, runtime):
        report = await attacked(runtime, place.name)
    assert report.gained() == {}


async def test_a_session_of_a_hub_with_its_own_user_gains_no_rights(place: Path) -> None:
    os.chown(place, SOMEBODY, SOMEBODY)
    async with session(place, hub_uid=SOMEBODY) as (plan, runtime):
        report = await attacked(runtime, place.name)
        server = owners_of(server_of(plan))
    assert report.gained("set_id_files") == {}
    assert not {"0", str(SOMEBODY)} & server


async def test_a_session_with_sudo_gains_only_the_intended_root_rights(place: Path) -> None:
    async with session(place, user="openhands", file_layout="openhands") as (_, runtime):
        report = await attacked(runtime, place.name)
    bounding = ["CapBnd 00000000000000fb"]
    assert report.gained("set_id_files") == {
        "capabilities": bounding,
        "new_privileges": ["a program may have more rights than we have"],
        "mounts_that_keep_set_id_bits": ["/run/sudo"],
    }


# One by one -------------------------------------------------------------------------------


async def test_files_a_session_creates_in_a_folder_belong_to_the_folders_owner(
    place: Path, folder: Path
) -> None:
    for owner in (0, PERSON):
        for each in (folder, folder / "code.py"):
            os.chown(each, owner, owner)
        async with session(place, folder=folder) as (_, runtime):
            seen = await runtime.run(
                "cat code.py; echo 'print(2)' >> code.py; mkdir a; echo b > a/b; ln -s b a/c; "
                "stat -c %U . code.py a/b; git init -q . && git status --porcelain"
            )
        assert seen.content.split("\n") == [
            *("print(1)", "bascule", "bascule", "bascule", "?? a/", "?? code.py", "")
        ]
        for each in (folder / "a", folder / "a/b", folder / "a/c", folder / "code.py"):
            assert (each.lstat().st_uid, each.lstat().st_gid) == (owner, owner)
        assert (folder / "code.py").read_text() == "print(1)\nprint(2)\n"
        shutil.rmtree(folder / "a")
        shutil.rmtree(folder / ".git")
        (folder / "code.py").write_text("print(1)\n")


async def test_files_of_other_users_in_a_folder_keep_their_owners(
    place: Path, folder: Path
) -> None:
    (folder / "theirs").write_text("theirs")
    (folder / "theirs").chmod(0o640)
    os.chown(folder / "theirs", PERSON, PERSON)
    async with session(place, folder=folder) as (_, runtime):
        seen = await runtime.run("stat -c %u theirs; cat theirs || echo none")
        removed = await runtime.run("rm -f theirs; ls theirs")
    assert seen.content.splitlines()[0] == str(PERSON)
    assert seen.content.splitlines()[-1] == "none"
    assert removed.exit_code != 0  # whose the folder is may remove what is in it


async def test_two_sessions_in_one_users_folders_have_different_uids(
    place: Path, folder: Path
) -> None:
    os.chown(folder, PERSON, PERSON)
    async with LocalSpawner(settings_in(place)) as spawner:
        await spawner.open()
        uids = set()
        for session_id in (new_session_id(), new_session_id()):
            directory = place / "sessions" / session_id
            directory.mkdir(parents=True)
            plan = SandboxPlan(
                session_id=session_id,
                directory=directory,
                run_dir=place / "run" / session_id,
                folder=folder,
                key="a-key-of-a-test",
            )
            uids.add((await spawner.start(plan)).uid)
        for each in await spawner.running():
            await spawner.stop(each.session_id, grace=1)
    assert len(uids) == 2
    assert not uids & {0, PERSON}


@pytest.fixture
def overlay(place: Path) -> Iterator[Path]:
    """A folder whose file system has no id-mapped mounts."""
    parts = [place / name for name in ("lower", "upper", "work", "project")]
    for each in parts:
        each.mkdir()
    lower, upper, work, merged = parts
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    made = subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", merged])
    if made.returncode != 0:
        pytest.skip("no overlay file system can be mounted here")
    yield merged
    subprocess.run(["umount", merged], check=True)


async def test_without_id_mapped_mounts_a_folder_of_root_is_rejected_with_advice(
    place: Path, overlay: Path
) -> None:
    with pytest.raises(AccessDenied, match=r"project belongs to root.*id-mapped mounts.*chown"):
        async with session(place, folder=overlay):
            pass


async def test_without_id_mapped_mounts_a_session_runs_as_the_folders_owner(
    place: Path, overlay: Path
) -> None:
    os.chown(overlay, PERSON, PERSON)
    async with session(place, folder=overlay) as (plan, runtime):
        report = await attacked(runtime, place.name)
        made = await runtime.run("echo > made; stat -c %U made; touch ~/made")
        server = owners_of(server_of(plan))
    assert report.gained() == {}
    assert made.content == "bascule\n"
    assert (overlay / "made").stat().st_uid == PERSON
    assert server == {str(PERSON)}


async def test_a_session_cannot_read_the_keyring_of_the_user_who_started_the_warden(
    place: Path, folder: Path
) -> None:
    add_key, keyctl = (248, 250) if platform.machine() == "x86_64" else (217, 219)
    libc = ctypes.CDLL(None, use_errno=True)
    join, session_keyring, secret = 1, -3, b"a secret of root's"
    if libc.syscall(keyctl, join, None) < 0:
        pytest.skip("this kernel has no keyrings")
    assert (
        libc.syscall(add_key, b"user", b"bascule-attack", secret, len(secret), session_keyring) > 0
    )
    async with session(place, folder=folder) as (_, runtime):
        report = await attacked(runtime, place.name)
    assert report.attacks["keys_of_whoever_started_us"] == []


async def test_a_session_of_an_earlier_version_keeps_its_home(place: Path, folder: Path) -> None:
    """In which a session was the owner of its folder."""
    os.chown(folder, PERSON, PERSON)
    session_id = new_session_id()
    directory = place / "sessions" / session_id
    (directory / "home").mkdir(parents=True)
    (directory / "home" / "kept").write_text("kept")
    for each in (directory / "home", directory / "home" / "kept"):
        os.chown(each, PERSON, PERSON)
    plan = SandboxPlan(
        session_id=session_id,
        directory=directory,
        run_dir=place / "run" / session_id,
        folder=folder,
        key="a-key-of-a-test",
    )
    async with LocalSpawner(settings_in(place)) as spawner, _started(spawner, plan) as runtime:
        seen = await runtime.run("echo more >> ~/kept; cat ~/kept")
    assert seen.content == "keptmore\n"


async def test_debuggers_and_threads_work_in_a_session(place: Path, folder: Path) -> None:
    """What the filter has to let through: ptrace, `setarch -R`, and processes without `clone3`."""
    script = (
        "import concurrent.futures, multiprocessing, subprocess, asyncio\n"
        "with concurrent.futures.ThreadPoolExecutor(4) as pool: print(sum(pool.map(int, '1234')))\n"
        "print(subprocess.run(['true']).returncode)\n"
        "print(asyncio.run(asyncio.sleep(0, 'looped')))\n"
        "lock = multiprocessing.Lock(); print(lock.acquire())\n"
    )
    trace = (
        "python3 - <<'END'\nimport ctypes, os, signal\nlibc = ctypes.CDLL(None)\npid = os.fork()\n"
        "if pid == 0: signal.pause()\n"
        "print(libc.ptrace(16, pid, 0, 0), os.WIFSTOPPED(os.waitpid(pid, 0)[1]))\n"
        "libc.ptrace(17, pid, 0, 0); os.kill(pid, 9)\nEND\nsetarch -R true && echo no random"
    )
    async with session(place, folder=folder) as (_, runtime):
        await runtime.write("works.py", script)
        seen = await runtime.run("python3 works.py")
        traced = await runtime.run(trace)
    assert seen.content.splitlines() == ["10", "0", "looped", "True"]
    assert traced.content.splitlines() == ["0 True", "no random"]


async def test_a_file_with_set_id_bits_can_be_edited_and_loses_them(
    place: Path, folder: Path
) -> None:
    (folder / "code.py").chmod(0o6755)
    async with session(place, folder=folder) as (_, runtime):
        await runtime.write("code.py", "print(3)\n")
    assert (folder / "code.py").read_text() == "print(3)\n"
    assert (folder / "code.py").stat().st_mode & 0o7777 == 0o755
