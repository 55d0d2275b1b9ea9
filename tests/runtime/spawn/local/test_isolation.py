"""What a session can do to another, to the hub and to the machine: nothing."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bascule.core.errors import AccessDenied, CannotIsolate, InvalidRequest
from bascule.core.sessions import SandboxPlan, SessionId, SessionLimits, new_session_id
from bascule.runtime.remote import RemoteRuntime
from bascule.runtime.spawn.local import LocalSettings, LocalSpawner
from tests.contracts.spawner import client, processes_with
from tests.runtime.spawn.attacks.terminals import open_terminals, take_terminals

from .wardens import SOMEBODY, settings_in, warden_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes things for other users"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]

Session = tuple[SandboxPlan, RemoteRuntime]


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bsc-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=["root", "somebody", "hub"])
async def spawner(place: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalSpawner]:
    """With the rights of root, with none, and of root for a hub that is somebody."""
    settings = settings_in(place, hub_uid=SOMEBODY if request.param == "hub" else None)
    if request.param == "root":
        async with opened(LocalSpawner(settings)) as spawner:
            yield spawner
    else:
        uid = SOMEBODY if request.param == "somebody" else 0
        for each in (place, place / "run"):  # which `bascule serve` makes for its user
            each.mkdir(exist_ok=True)
            os.chown(each, SOMEBODY, SOMEBODY)
        async with (
            warden_of(uid, settings, place / "warden.sock") as path,
            opened(LocalSpawner(settings, warden=path)) as spawner,
        ):
            yield spawner


class opened:  # noqa: N801  # used as a function is
    def __init__(self, spawner: LocalSpawner) -> None:
        self._spawner = spawner

    async def __aenter__(self) -> LocalSpawner:
        await self._spawner.open()
        return self._spawner

    async def __aexit__(self, *_: object) -> None:
        for each in await self._spawner.running():
            await self._spawner.stop(each.session_id, grace=1)
        await self._spawner.aclose()


@pytest.fixture
def new_plan(place: Path) -> Callable[[], SandboxPlan]:
    def new_plan() -> SandboxPlan:
        owner = place.stat().st_uid
        session_id = new_session_id()
        made = [place / "sessions", place / "run"]
        made += [made[0] / session_id]
        for each in made:
            each.mkdir(exist_ok=True)
            os.chown(each, owner, owner)
        return SandboxPlan(
            session_id=session_id,
            directory=made[2],
            run_dir=place / "run" / session_id,
            key=secrets.token_urlsafe(16),
        )

    return new_plan


@pytest.fixture
async def two(
    spawner: LocalSpawner, new_plan: Callable[[], SandboxPlan]
) -> AsyncIterator[tuple[Session, Session]]:
    plans = new_plan(), new_plan()
    await asyncio.gather(*map(spawner.start, plans))
    async with client(plans[0]) as first, client(plans[1]) as second:
        yield (plans[0], first), (plans[1], second)


@pytest.fixture
async def one(two: tuple[Session, Session]) -> Session:
    return two[0]


# Between sessions -------------------------------------------------------------------------


async def test_a_session_sees_only_its_own_processes(two: tuple[Session, Session]) -> None:
    (_, first), (_, second) = two
    word = secrets.token_hex(8)
    await first.run(f"(setsid bash -c 'sleep 1000; :' {word} &)")
    async with asyncio.timeout(30):
        while len(found := processes_with(word)) != 1:  # setsid may still be forking
            await asyncio.sleep(0.01)
    (pid,) = found
    seen = await second.run(
        f"cat /proc/[0-9]*/cmdline | tr '\\0' ' '; kill -9 {pid}; ls /proc/{pid}"
    )
    assert word not in seen.content.replace(f"kill -9 {pid}", "")
    assert processes_with(word) == [pid]
    assert "zygote" not in (await second.run("cat /proc/[0-9]*/environ")).content


async def test_a_session_sees_no_file_of_another_or_of_the_hub(
    two: tuple[Session, Session], place: Path
) -> None:
    (plan, first), (_, second) = two
    await first.run("echo secret > mine; chmod 666 mine; chmod 777 .")
    mine = plan.directory / "workspace" / "mine"
    for path in (mine, plan.directory, place, place / "warden", "/root", "/etc/shadow", "/home"):
        assert "secret" not in (await second.run(f"cat {path} 2>&1; ls -R {path} 2>&1")).content
    assert (await second.run(f"ls {place} 2>&1")).exit_code != 0
    assert (await second.run("ls -A /home /run /var/lib")).content.split() == [
        *("/home:", "bascule", "/run:", "bascule", "/var/lib:", "bascule")
    ]


async def test_a_session_cannot_leave_through_descriptors_of_other_processes(
    one: Session, place: Path
) -> None:
    """Of all that can be opened through `/proc`, nothing goes up to the machine's own root."""
    _, runtime = one
    walk = (
        "for fd in /proc/[0-9]*/fd/* /proc/[0-9]*/cwd /proc/[0-9]*/root; do "
        "for up in . .. ../.. ../../.. ../../../.. ../../../../..; do "
        f"[ -e $fd/$up{place} ] && echo ESCAPED $fd/$up; done; done 2>/dev/null; echo done"
    )
    assert (await runtime.run(walk)).content == "done\n"


async def test_ports_of_a_session_are_unreachable_from_other_sessions_and_the_host(
    two: tuple[Session, Session],
) -> None:
    (_, first), (_, second) = two
    serve = "python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & "
    wait = "until (: </dev/tcp/127.0.0.1/8123) 2>/dev/null; do :; done; echo up"
    assert "up" in (await first.run(serve + wait)).content
    seen = await second.run("(: </dev/tcp/127.0.0.1/8123) && echo REACHED")
    assert "REACHED" not in seen.content
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", 8123)) != 0


async def test_a_session_cannot_reach_services_of_the_host(one: Session) -> None:
    _, runtime = one
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        seen = await runtime.run(f"(: </dev/tcp/127.0.0.1/{port}) && echo REACHED")
    assert "REACHED" not in seen.content
    assert (await runtime.run("tail -n +2 /proc/net/route")).content == ""


async def test_a_session_has_its_own_abstract_sockets_and_shared_memory(one: Session) -> None:
    _, runtime = one
    name = secrets.token_hex(8)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect('\\x00{name}')"
        seen = await runtime.run(f'python3 -c "{script}"')
    assert "refused" in seen.content.lower()
    shared = Path("/dev/shm", name)
    shared.touch()
    try:
        assert name not in (await runtime.run("ls /dev/shm /tmp /var/tmp")).content
    finally:
        shared.unlink()


async def test_a_session_cannot_write_host_files(one: Session) -> None:
    _, runtime = one
    for path in ("/x", "/usr/x", "/etc/x", "/opt/x", "/run/x", "/proc/sys/kernel/hostname"):
        assert (await runtime.run(f"echo 1 > {path}")).exit_code != 0, path
    for path in ("/tmp/x", "/var/tmp/x", "/dev/shm/x", "~/x", "/workspace/x"):
        assert (await runtime.run(f"echo 1 > {path}")).exit_code == 0, path
    venv = Path(os.__file__).parent
    assert (await runtime.run(f"touch {venv}/x")).exit_code != 0


async def test_no_process_of_a_session_has_or_can_gain_capabilities(one: Session) -> None:
    _, runtime = one
    seen = await runtime.run(
        "grep -hE 'CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs' /proc/self/status; "
        "mount -t tmpfs none /workspace; chroot / true; mknod /tmp/d b 8 0"
    )
    lines = dict(line.split(":\t") for line in seen.content.splitlines() if ":\t" in line)
    assert lines.pop("NoNewPrivs") == "1"
    assert {int(value, 16) for value in lines.values()} == {0}
    assert seen.content.lower().count("permi") + seen.content.lower().count("must be") >= 3


async def test_a_session_user_named_root_has_uid_0_but_no_capabilities(
    spawner: LocalSpawner, new_plan: Callable[[], SandboxPlan]
) -> None:
    plan = replace(new_plan(), user="root", file_layout="openhands")
    await spawner.start(plan)
    async with client(plan) as runtime:
        seen = await runtime.run("id -u; whoami; echo ~; stat -c %U /workspace")
        caps = await runtime.run("grep -hE 'CapPrm|CapEff|CapBnd|CapAmb' /proc/self/status")
        refused = await runtime.run("chown nobody . || mount -t tmpfs none /workspace")
        python = await runtime.run(
            "test -x /openhands/poetry/openhands-ai-5O4_aCHf-py3.12/bin/python3"
        )

    assert seen.content == "0\nroot\n/root\nroot\n"
    assert {int(line.split(":\t")[1], 16) for line in caps.content.splitlines()} == {0}
    assert refused.exit_code != 0
    assert python.exit_code == 0


@pytest.fixture
async def sudoer(place: Path, new_plan: Callable[[], SandboxPlan]) -> AsyncIterator[Session]:
    """A session whose user may become root of it, which takes a warden with the rights of root."""
    async with opened(LocalSpawner(settings_in(place))) as spawner:
        plan = replace(new_plan(), user="openhands", file_layout="openhands")
        await spawner.start(plan)
        async with client(plan) as runtime:
            yield plan, runtime


async def test_root_of_a_session_has_root_rights_over_the_sessions_own_resources(
    sudoer: Session,
) -> None:
    _, runtime = sudoer
    who = await runtime.run("id -un; sudo id -un; sudo sh -c 'echo ~; echo $USER $SUDO_USER'")
    given = await runtime.run(
        "sudo sh -c 'echo kept > mine; chmod 600 mine' && cat mine || sudo cat mine; "
        "sudo chown openhands:root mine && stat -c '%U %G' mine / && cat mine"
    )
    home = await runtime.run("cd /; sudo touch root/made && ls root")
    ended = await runtime.run("sudo sleep 1000 & sleep 0.1; sudo kill $!; wait $!; echo $?")
    lowered = await runtime.run("sudo -u openhands id -un; sudo --made-up; sudo -u nobody id")

    assert who.content == "openhands\nroot\n/root\nroot openhands\n"
    assert given.content.splitlines() == [
        *("cat: mine: Permission denied", "kept", "openhands root", "root root", "kept")
    ]
    assert (home.exit_code, "Permission denied" in home.content) == (2, True)
    assert ended.content.splitlines()[-1] == "143"
    assert lowered.content.startswith("openhands\nsudo: --made-up is not supported here")
    assert lowered.exit_code != 0


async def test_root_of_a_session_has_no_right_over_the_machine_or_another_session(
    sudoer: Session, place: Path
) -> None:
    plan, runtime = sudoer
    mounted = await runtime.run("sudo mount -t tmpfs none /workspace || sudo umount /workspace")
    system = await runtime.run("sudo touch /usr/made || sudo touch /made || sudo chown root /usr")
    shell = await runtime.run("sudo cp /bin/sh sh && sudo chmod 4755 sh && ./sh -pc 'id -u'")
    outside = await runtime.run(
        f"sudo ls {place} || sudo sh -c 'cd /proc/1/root && cat etc/shadow'"
    )
    server = await runtime.run(
        "sudo sh -c 'for p in /proc/[0-9]*; do "
        "[ $(cat $p/comm) != sandbox ] || cat $p/environ $p/mem; done'"
    )
    caps = await runtime.run("sudo grep CapEff /proc/self/status")
    first = await runtime.run("sudo kill -9 1; echo $?")

    for refused in (mounted, system, outside):
        assert refused.exit_code != 0, refused.content
    assert server.content.count("Permission denied") == 2
    assert len(server.content.splitlines()) == 2
    assert plan.key not in server.content
    assert shell.content.strip() != "0"  # the bit counts where we say, and nowhere else
    assert int(caps.content.split()[1], 16) == 0b11111011
    assert first.content.splitlines()[-1] != "0"
    assert (await runtime.run("echo still here")).content == "still here\n"


async def test_files_created_by_a_sessions_root_belong_to_its_user_after_a_restart(
    place: Path, new_plan: Callable[[], SandboxPlan]
) -> None:
    plan = replace(new_plan(), user="openhands", file_layout="openhands")
    async with opened(LocalSpawner(settings_in(place))) as spawner:
        await spawner.start(plan)
        async with client(plan) as runtime:
            await runtime.run("sudo sh -c 'umask 077; mkdir made; echo text > made/it'")
        await spawner.stop(plan.session_id, grace=1)
        await spawner.start(plan)
        async with client(plan) as runtime:
            seen = await runtime.run("cat made/it")
        await spawner.stop(plan.session_id, grace=1)
    left = [*Path("/run/bascule-uids").glob("*")]

    assert seen.content == "text\n"
    assert not {str(each.stat().st_uid) for each in plan.directory.rglob("*")} & {
        each.name for each in left
    }


async def test_a_session_cannot_read_the_key_from_its_server(one: Session) -> None:
    plan, runtime = one
    await runtime.run("true")
    script = (
        "import os, glob\n"
        "found = []\n"
        "for each in glob.glob('/proc/[0-9]*'):\n"
        "    try:\n"
        "        if open(each + '/comm').read().strip() != 'sandbox': continue\n"
        "        open(each + '/mem', 'rb'); found.append(each)\n"
        "    except OSError as error: print(type(error).__name__)\n"
        "print(found)\n"
    )
    (await runtime.write("look.py", script))
    assert (await runtime.run("python3 look.py")).content == "PermissionError\n[]\n"
    seen = await runtime.run("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null")
    assert plan.key not in seen.content


# Users, directories and links ----------------------------------------------------------


@pytest.mark.parametrize("spawner", ["root"], indirect=True)
async def test_sessions_have_different_uids_and_private_files(
    two: tuple[Session, Session], spawner: LocalSpawner
) -> None:
    users = {each.session_id: each.uid for each in await spawner.running()}
    assert len(set(users.values())) == 2
    for plan, runtime in two:
        uid = users[plan.session_id]
        assert (await runtime.run("touch mine; id -u; whoami")).content == f"{uid}\nbascule\n"
        assert (plan.directory / "workspace" / "mine").stat().st_uid == uid
        assert uid is not None
        assert uid in range(spawner.settings.first_uid, 90_000)


@pytest.mark.parametrize("spawner", ["root"], indirect=True)
async def test_a_restarted_session_keeps_its_uid(
    spawner: LocalSpawner, new_plan: Callable[[], SandboxPlan]
) -> None:
    plan = new_plan()
    first = await spawner.start(plan)
    await spawner.stop(plan.session_id)
    assert (await spawner.start(plan)).uid == first.uid


@pytest.mark.parametrize("spawner", ["root"], indirect=True)
async def test_a_symlink_in_the_socket_directory_is_not_followed(
    two: tuple[Session, Session],
) -> None:
    (mine, first), (other, _) = two
    await first.run(
        f"rm /run/bascule/sandbox.sock; ln -s ../{other.session_id}/sandbox.sock "
        "/run/bascule/sandbox.sock; ln -s /etc/passwd /run/bascule/vscode.sock"
    )
    assert (mine.run_dir / "sandbox.sock").is_symlink()
    with socket.socket(socket.AF_UNIX) as sock, pytest.raises(OSError, match="symbolic links"):
        sock.connect(str(mine.run_dir / "sandbox.sock"))
    with pytest.raises(OSError, match="symbolic links"):
        (mine.run_dir / "vscode.sock").read_text()


@pytest.mark.parametrize("spawner", ["root"], indirect=True)
async def test_a_session_directory_outside_sessions_dir_is_rejected(
    spawner: LocalSpawner, new_plan: Callable[[], SandboxPlan], place: Path
) -> None:
    plan = new_plan()
    outside = place / "outside"
    outside.mkdir()
    (place / "sessions" / "link").symlink_to(outside)
    for directory in (outside, place / "sessions" / "link", plan.directory / ".." / ".."):
        with pytest.raises(AccessDenied):
            await spawner.start(replace(plan, directory=directory))
    with pytest.raises(AccessDenied, match="workspace_roots"):
        await spawner.start(replace(plan, folder=Path("/usr/share")))
    with pytest.raises(AccessDenied, match="allow_root"):
        await spawner.start(replace(plan, folder=outside))
    with pytest.raises(AccessDenied):
        await spawner.start(replace(plan, run_dir=outside))
    with pytest.raises(AccessDenied):
        await spawner.start(replace(plan, hub_socket=outside / "hub.sock"))
    with pytest.raises(InvalidRequest):
        await spawner.start(replace(plan, session_id=SessionId("../../etc")))
    assert list(outside.iterdir()) == []
    assert await spawner.running() == []


@pytest.mark.parametrize("spawner", ["root"], indirect=True)
async def test_removing_a_session_deletes_its_files_whoever_owns_them(
    spawner: LocalSpawner, one: Session, place: Path
) -> None:
    plan, runtime = one
    kept = place / "kept"
    kept.write_text("kept")
    await runtime.run(f"mkdir -p a/b; touch a/b/c; chmod 000 a/b; ln -s {kept} a/link; ln -s / a/r")
    await spawner.stop(plan.session_id)
    await spawner.remove(plan.directory)
    assert not plan.directory.exists()
    assert kept.read_text() == "kept"
    with pytest.raises(AccessDenied):
        await spawner.remove(place)


# Ways in and out -------------------------------------------------------------------------


async def test_a_session_sees_the_hub_socket_after_a_new_hub_recreates_it(
    spawner: LocalSpawner, new_plan: Callable[[], SandboxPlan], place: Path
) -> None:
    plan = new_plan()
    path = place / "run" / "hub" / plan.session_id / "hub.sock"
    for parent in (path.parent.parent, path.parent):
        parent.mkdir(mode=0o755)
        os.chown(parent, place.stat().st_uid, -1)
    await spawner.start(replace(plan, hub_socket=path))
    for _ in range(2):
        with socket.socket(socket.AF_UNIX) as hub:
            hub.bind(str(path))
            path.chmod(0o666)
            hub.listen()
            script = "import socket; socket.socket(socket.AF_UNIX).connect('/run/hub/hub.sock')"
            async with client(plan) as runtime:
                assert (await runtime.run(f'python3 -c "{script}"')).content == ""
                assert (await runtime.run("rm /run/hub/hub.sock")).exit_code != 0
        path.unlink()


# Limits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("spawner", ["root"], indirect=True)
async def test_a_process_past_the_memory_limit_is_killed(
    spawner: LocalSpawner, new_plan: Callable[[], SandboxPlan]
) -> None:
    plan = replace(new_plan(), limits=SessionLimits(memory=96 << 20))
    await spawner.start(plan)
    async with client(plan) as runtime:
        seen = await runtime.run("python3 -c 'x = bytearray(300 << 20); print(len(x))'")
        assert seen.exit_code == 137
        assert (await runtime.run("echo still here")).content == "still here\n"


async def test_a_session_cannot_fork_past_the_process_limit(
    spawner: LocalSpawner, new_plan: Callable[[], SandboxPlan]
) -> None:
    plan = replace(new_plan(), limits=SessionLimits(processes=40))
    await spawner.start(plan)
    async with client(plan) as runtime:
        await runtime.run("true")
        bomb = "import os, signal\nfor _ in range(100): os.fork() or signal.pause()\n"
        await runtime.write("bomb.py", bomb)
        seen = await runtime.run("python3 bomb.py")
        assert "temporarily unavailable" in seen.content
        assert (await spawner.usage(plan.session_id)).processes <= 40


@pytest.mark.parametrize("spawner", ["somebody"], indirect=True)
async def test_without_cgroups_each_process_is_held_to_the_memory_limit(
    spawner: LocalSpawner, new_plan: Callable[[], SandboxPlan]
) -> None:
    plan = replace(new_plan(), limits=SessionLimits(memory=256 << 20))
    await spawner.start(plan)
    async with client(plan) as runtime:
        seen = await runtime.run("python3 -c 'bytearray(400 << 20)'")
    assert "MemoryError" in seen.content
    assert any("Limits of sessions are weak" in notice for notice in spawner.notices)
    assert any("the same user" in notice for notice in spawner.notices)


@pytest.mark.parametrize("spawner", ["root"], indirect=True)
async def test_cpu_time_is_held_to_the_limit(
    spawner: LocalSpawner, new_plan: Callable[[], SandboxPlan]
) -> None:
    plan = replace(new_plan(), limits=SessionLimits(cpus=0.2))
    await spawner.start(plan)
    async with client(plan) as runtime:
        await runtime.run("true")
        before, began = await spawner.usage(plan.session_id), asyncio.get_running_loop().time()
        await runtime.run("timeout 2 bash -c 'while :; do :; done'")
        used = (await spawner.usage(plan.session_id)).cpu_seconds - before.cpu_seconds
        took = asyncio.get_running_loop().time() - began
    assert used / took < 0.26


async def test_a_session_cannot_control_terminals_of_the_host(
    two: tuple[Session, Session],
) -> None:
    """One had 3,059, and then nobody on the machine could open another."""
    (_, first), (_, second) = two
    count, error = await take_terminals(first)
    assert (count < 128, error) == (True, "No space left on device")
    assert await open_terminals(second, 50) == 50


# Machines that cannot -------------------------------------------------------------------


async def test_a_machine_without_bubblewrap_is_rejected_with_advice(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = place / "bin"
    bare.mkdir()
    monkeypatch.setenv("PATH", str(bare))
    spawner = LocalSpawner(settings_in(place))
    with pytest.raises(CannotIsolate, match=r"apt-get install bubblewrap.*allow_unisolated"):
        await spawner.open()
    await spawner.aclose()


async def test_unisolated_sandboxes_run_with_allow_unisolated_and_log_a_warning(
    place: Path, new_plan: Callable[[], SandboxPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = place / "bin"
    bare.mkdir()
    monkeypatch.setenv("PATH", str(bare))
    settings: LocalSettings = settings_in(place, allow_unisolated=True)
    async with opened(LocalSpawner(settings)) as spawner:
        assert any("NOT ISOLATED" in notice for notice in spawner.notices)
        plan = new_plan()
        await spawner.start(plan)
        async with client(plan) as runtime:
            seen = await runtime.run("pwd; echo $HOME")
        assert seen.content.split() == [
            str(plan.directory / "workspace"),
            str(plan.directory / "home"),
        ]
