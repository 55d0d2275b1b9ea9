"""What every kind of spawner must do. A kind's tests subclass `SpawnerSuite` and give `make`.

The host sees the processes of its sandboxes, whatever namespaces they are in, so the suite looks
at both ends: what a sandbox answers, and what is left of it outside.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import socket
import struct
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bascule.core.contracts import Spawner
from bascule.core.errors import AccessDenied, NoSuchSandbox, SandboxStartFailed
from bascule.core.sessions import RunningSandbox, SandboxPlan, SessionId, new_session_id
from bascule.runtime.remote import RemoteRuntime
from tests.contracts.runtime import Seen, gone

MakeSpawner = Callable[[], Spawner]
"""A spawner that is not open yet. All that it makes in one test see each other's sandboxes."""

TIMEOUT = 0.3
"""Seconds in which a sandbox that runs would have answered."""


PAUSES = int(os.environ.get("BASCULE_TEST_PAUSES", "3"))
"""How often a line is paused and resumed in its middle."""

SILENCE = 5
"""Seconds without output after which a command is answered as still running, where it is set."""

BUILD = """cat > build.sh <<'END'
set -e
part() { echo "part $1"; }
(part 1; sh -c 'head -n 1 go >out'; part 2)
echo "with $(sh -c 'cat out | tr a-z A-Z' | cat)"
(part 3) & wait
END
"""
LINES = {
    "command": "echo begun; head -n 1 go; echo done",
    "pipeline": "echo begun; head -n 1 go | tr a-z A-Z | cat; echo done",
    "build": "echo begun; bash build.sh && echo built; echo done",
}
"""What is run: it waits in its middle for a line in `go`."""
WHOLE = {
    "command": "begun\na line\ndone\n",
    "pipeline": "begun\nA LINE\ndone\n",
    "build": "begun\npart 1\npart 2\nwith A LINE\npart 3\nbuilt\ndone\n",
}


@contextmanager
def held_open(fifo: Path) -> Iterator[int]:
    """Its writing end, open so that whoever reads it waits for a line and not for somebody."""
    descriptor = os.open(fifo, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def client(plan: SandboxPlan, key: str = "") -> RemoteRuntime:
    path = plan.run_dir / "sandbox.sock"
    return RemoteRuntime("http://localhost", key or plan.key, socket_path=path)


async def started(word: str) -> list[int]:
    """The same, once there are some: what runs in the background begins when it likes."""
    async with asyncio.timeout(30):
        while not (found := processes_with(word)):
            await asyncio.sleep(0.01)
    return found


def processes_with(word: str) -> list[int]:
    """Those of the host that have `word` on their command lines, zombies aside."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if word.encode() in command:
            found.append(int(entry.name))
    return found


def ticks_of(pid: int) -> int:
    """CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12])


def server_of(plan: SandboxPlan) -> int:
    """The host's number of the process that listens on the sandbox's socket."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(plan.run_dir / "sandbox.sock"))
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid: int = struct.unpack("3i", credentials)[0]
    return pid


def sockets_of(plan: SandboxPlan) -> list[Path]:
    return [each for each in plan.run_dir.rglob("*") if each.is_socket()]


@pytest.mark.slow
class SpawnerSuite:
    @pytest.fixture
    def place(self) -> Iterator[Path]:
        """Short, since a socket's path is; everybody may go through it."""
        path = Path(tempfile.mkdtemp(prefix="bsc-"))
        path.chmod(0o755)
        yield path
        shutil.rmtree(path)

    @pytest.fixture
    def make(self, place: Path) -> MakeSpawner:
        raise NotImplementedError

    @pytest.fixture
    async def spawner(self, make: MakeSpawner) -> AsyncIterator[Spawner]:
        spawner = make()
        await spawner.open()
        yield spawner
        for sandbox in await spawner.running():
            await spawner.stop(sandbox.session_id, grace=0)
        await spawner.aclose()

    @pytest.fixture
    def new_plan(self, place: Path) -> Callable[[], SandboxPlan]:
        """Plans as a hub makes them: the directories of a session are there and are empty."""

        def new_plan() -> SandboxPlan:
            session_id = new_session_id()
            directory = place / "sessions" / session_id
            run_dir = place / "run" / session_id
            for each in ("workspace", "home", "state"):
                (directory / each).mkdir(parents=True)
            run_dir.mkdir(parents=True)
            key = secrets.token_urlsafe(16)
            return SandboxPlan(session_id=session_id, directory=directory, run_dir=run_dir, key=key)

        return new_plan

    @pytest.fixture
    def plan(self, new_plan: Callable[[], SandboxPlan]) -> SandboxPlan:
        return new_plan()

    @asynccontextmanager
    async def another(self, make: MakeSpawner) -> AsyncIterator[Spawner]:
        """A spawner as the next life of a hub would have it."""
        spawner = make()
        await spawner.open()
        async with spawner:
            yield spawner

    # Starting -----------------------------------------------------------------------------

    async def test_a_started_sandbox_does_actions_in_its_workspace(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        stages: list[str] = []
        started = await spawner.start(plan, on_stage=stages.append)
        assert started.session_id == plan.session_id
        assert not started.is_paused
        assert stages
        async with client(plan) as runtime:
            seen = await runtime.run("echo made inside > mark; cat mark")
        assert seen.content == "made inside\n"
        assert (plan.directory / "workspace" / "mark").read_text() == "made inside\n"

    async def test_a_sandbox_has_a_home_and_the_environment_of_its_plan(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(replace(plan, environment={"GREETING": "hello there"}))
        async with client(plan) as runtime:
            seen = await runtime.run('echo "$GREETING"; touch ~/mark')
        assert seen.content == "hello there\n"
        assert (plan.directory / "home" / "mark").is_file()

    async def test_a_host_folder_can_be_the_workspace(
        self, spawner: Spawner, plan: SandboxPlan, place: Path
    ) -> None:
        folder = place / "project"
        folder.mkdir()
        (folder / "code.py").write_text("print(1)\n")
        await spawner.start(replace(plan, folder=folder))
        async with client(plan) as runtime:
            assert (await runtime.run("cat code.py")).content == "print(1)\n"

    async def test_a_sandbox_requires_its_key_and_no_command_line_contains_it(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        stranger = client(plan, "another key")
        with pytest.raises(AccessDenied):
            await stranger.connect()
        await stranger.aclose()
        assert processes_with(plan.key) == []

    async def test_a_running_sandbox_is_not_started_twice(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        async with client(plan) as runtime:
            await runtime.run("word=kept")
            await spawner.start(plan)
            assert (await runtime.run("echo $word")).content == "kept\n"
        assert len(await spawner.running()) == 1

    async def test_two_concurrent_starts_of_a_session_make_one_sandbox(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await asyncio.gather(spawner.start(plan), spawner.start(plan))
        assert len(await spawner.running()) == 1
        async with client(plan) as runtime:
            assert (await runtime.run("echo up")).content == "up\n"

    async def test_several_sandboxes_start_concurrently(
        self, spawner: Spawner, new_plan: Callable[[], SandboxPlan]
    ) -> None:
        plans = [new_plan() for _ in range(3)]
        await asyncio.gather(*map(spawner.start, plans))
        for number, plan in enumerate(plans):
            async with client(plan) as runtime:
                await runtime.run(f"echo {number} > mark")
        marks = [(each.directory / "workspace" / "mark").read_text() for each in plans]
        assert marks == ["0\n", "1\n", "2\n"]
        found = {each.session_id for each in await spawner.running()}
        assert found == {each.session_id for each in plans}

    # Starts that fail ---------------------------------------------------------------------

    async def test_a_failed_start_reports_its_cause_and_leaves_nothing(
        self, spawner: Spawner, plan: SandboxPlan, place: Path
    ) -> None:
        missing = place / "never-made"
        with pytest.raises(SandboxStartFailed, match="never-made"):
            await spawner.start(replace(plan, folder=missing))
        await self.ensure_nothing_is_left(spawner, plan)

    async def test_a_server_that_ends_at_once_says_why_in_the_error(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        with pytest.raises(SandboxStartFailed, match="key"):
            await spawner.start(replace(plan, key=""))
        await self.ensure_nothing_is_left(spawner, plan)
        await spawner.start(plan)
        async with client(plan) as runtime:
            assert (await runtime.run("echo up")).content == "up\n"

    async def test_a_start_cancelled_at_any_stage_leaves_nothing(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        stages: list[str] = []
        await spawner.start(plan, on_stage=stages.append)
        await spawner.stop(plan.session_id)
        for stage in dict.fromkeys(stages):
            await self.start_and_cancel(spawner, plan, stage)
            await self.ensure_nothing_is_left(spawner, plan)
        await spawner.start(plan)

    async def start_and_cancel(self, spawner: Spawner, plan: SandboxPlan, stage: str) -> None:
        starting: asyncio.Task[RunningSandbox]

        def cancel(said: str) -> None:
            if said == stage:
                asyncio.get_running_loop().call_soon(starting.cancel)

        starting = asyncio.create_task(spawner.start(plan, on_stage=cancel))
        with pytest.raises(asyncio.CancelledError):
            await starting

    async def ensure_nothing_is_left(self, spawner: Spawner, plan: SandboxPlan) -> None:
        assert await spawner.running() == []
        assert sockets_of(plan) == []
        with pytest.raises(NoSuchSandbox):
            await spawner.usage(plan.session_id)

    # Found again --------------------------------------------------------------------------

    async def test_a_sandbox_outlives_its_spawner_and_is_found_by_another(
        self, spawner: Spawner, make: MakeSpawner, plan: SandboxPlan
    ) -> None:
        async with self.another(make) as first:
            await first.start(plan)
        async with client(plan) as runtime:
            await runtime.run("word=kept")
            async with self.another(make) as second:
                found = await second.running()
                assert [each.session_id for each in found] == [plan.session_id]
                assert (await second.usage(plan.session_id)).processes > 0
                await second.start(plan)
            assert (await runtime.run("echo $word")).content == "kept\n"

    async def test_another_spawner_can_pause_resume_and_stop_it(
        self, spawner: Spawner, make: MakeSpawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        async with self.another(make) as other:
            await other.pause(plan.session_id)
            assert [each.is_paused for each in await spawner.running()] == [True]
            await other.resume(plan.session_id)
            await other.stop(plan.session_id)
            assert await other.running() == []
        assert await spawner.running() == []

    async def test_a_new_spawner_has_no_running_sandboxes(self, spawner: Spawner) -> None:
        assert await spawner.running() == []

    # Pausing ------------------------------------------------------------------------------

    async def test_no_process_runs_while_paused_and_all_continue_afterwards(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        word = secrets.token_hex(8)
        async with client(plan) as runtime:
            await runtime.run("here=kept")
            await self.run_in_background(runtime, f"bash -c 'while :; do :; done' {word}")
            (busy,) = await started(word)
            await spawner.pause(plan.session_id)
            await spawner.pause(plan.session_id)
            assert [each.is_paused for each in await spawner.running()] == [True]
            before = ticks_of(busy)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(TIMEOUT), aclosing(client(plan)) as waiting:
                    await waiting.connect()
            assert ticks_of(busy) == before
            await spawner.resume(plan.session_id)
            await spawner.resume(plan.session_id)
            assert [each.is_paused for each in await spawner.running()] == [False]
            assert (await runtime.run("echo $here")).content == "kept\n"
            while ticks_of(busy) <= before:  # bounded by the test's own timeout
                await runtime.run("true")

    @pytest.mark.parametrize("what", LINES)
    async def test_a_command_paused_halfway_completes_normally_after_resuming(
        self, spawner: Spawner, plan: SandboxPlan, what: str
    ) -> None:
        """No shell may take its command for one that was stopped, and go on with the next."""
        await spawner.start(plan)
        async with client(plan) as runtime:
            await runtime.run("mkfifo go; " + BUILD)
            for _ in range(PAUSES):
                seen = Seen()
                running = asyncio.create_task(runtime.run(LINES[what], on_progress=seen))
                with held_open(plan.directory / "workspace" / "go") as go:
                    await seen.wait_for(b"begun")
                    await spawner.pause(plan.session_id)
                    await spawner.resume(plan.session_id)
                    os.write(go, b"a line\n")
                    ended = await running
                assert (ended.content, ended.exit_code) == (WHOLE[what], 0)
            assert (await runtime.run("jobs")).content == ""

    async def test_a_command_does_not_count_as_silent_while_it_is_paused(
        self, spawner: Spawner, new_plan: Callable[[], SandboxPlan]
    ) -> None:
        """Without output for a while, a command is answered as still running."""
        plan = replace(new_plan(), environment={"NO_CHANGE_TIMEOUT_SECONDS": str(SILENCE)})
        await spawner.start(plan)
        async with client(plan) as runtime:
            await runtime.run("mkfifo go")
            seen = Seen()
            running = asyncio.create_task(runtime.run(LINES["command"], on_progress=seen))
            with held_open(plan.directory / "workspace" / "go") as go:
                await seen.wait_for(b"begun")
                await spawner.pause(plan.session_id)
                await asyncio.sleep(SILENCE + 2)  # the length of the pause is what is tested
                await spawner.resume(plan.session_id)
                os.write(go, b"a line\n")
                ended = await running
            assert (ended.content, ended.exit_code) == (WHOLE["command"], 0)

    async def test_a_job_that_was_stopped_before_a_pause_stays_stopped(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        async with client(plan) as runtime:
            await runtime.run("set -m; sleep 1000 & kill -STOP $!")
            state = "ps -o stat= -p $(jobs -p) | cut -c1"
            while (await runtime.run(state)).content != "T\n":  # bounded by the test's timeout
                pass
            await spawner.pause(plan.session_id)
            await spawner.pause(plan.session_id)
            await spawner.resume(plan.session_id)
            assert (await runtime.run(state)).content == "T\n"

    async def run_in_background(self, runtime: RemoteRuntime, command: str) -> None:
        """Out of the shell's reach: its own session, no terminal, no parent."""
        await runtime.run(f"(setsid {command} </dev/null >/dev/null 2>&1 &)")

    async def test_a_paused_sandbox_can_be_stopped(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        await spawner.pause(plan.session_id)
        await spawner.stop(plan.session_id)
        assert await spawner.running() == []
        assert sockets_of(plan) == []

    # Stopping -----------------------------------------------------------------------------

    async def test_stopping_ends_every_process_and_keeps_every_file(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        word = secrets.token_hex(8)
        async with client(plan) as runtime:
            await runtime.run("echo kept > file; echo mine > ~/file")
            await self.run_in_background(runtime, f"bash -c 'trap : TERM; sleep 1000' {word}")
            await started(word)
        await spawner.stop(plan.session_id)
        assert processes_with(word) == []
        assert sockets_of(plan) == []
        assert await spawner.running() == []
        assert (plan.directory / "workspace" / "file").read_text() == "kept\n"
        assert (plan.directory / "home" / "file").read_text() == "mine\n"

    async def test_a_stopped_sandbox_starts_again_on_its_files(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        async with client(plan) as runtime:
            await runtime.run("echo kept > file")
        await spawner.stop(plan.session_id)
        await spawner.start(replace(plan, key="a-new-key"))
        async with client(plan, "a-new-key") as runtime:
            assert (await runtime.run("cat file")).content == "kept\n"

    async def test_stopping_a_sandbox_that_does_not_run_succeeds(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.stop(new_session_id())
        await spawner.start(plan)
        await asyncio.gather(spawner.stop(plan.session_id), spawner.stop(plan.session_id))
        await spawner.stop(plan.session_id)
        assert await spawner.running() == []

    async def test_stopping_a_sandbox_does_not_affect_others(
        self, spawner: Spawner, new_plan: Callable[[], SandboxPlan]
    ) -> None:
        first, second = new_plan(), new_plan()
        await asyncio.gather(spawner.start(first), spawner.start(second))
        await spawner.stop(first.session_id)
        async with client(second) as runtime:
            assert (await runtime.run("echo up")).content == "up\n"
        assert [each.session_id for each in await spawner.running()] == [second.session_id]

    @pytest.mark.parametrize("verb", ["pause", "resume", "usage"])
    async def test_a_missing_sandbox_is_reported_by_its_id(
        self, spawner: Spawner, verb: str
    ) -> None:
        session_id = SessionId("nobody0nobody0nobody0nobo")
        with pytest.raises(NoSuchSandbox, match=session_id):
            await getattr(spawner, verb)(session_id)

    async def test_the_files_of_a_stopped_sandbox_can_be_removed(
        self, spawner: Spawner, plan: SandboxPlan, place: Path
    ) -> None:
        kept = place / "kept"
        kept.mkdir()
        await spawner.start(plan)
        async with client(plan) as runtime:
            await runtime.run(f"mkdir -p a/b; touch a/b/c ~/d; ln -s {kept} a/link")
        await spawner.stop(plan.session_id)
        await spawner.remove(plan.directory)
        await spawner.remove(plan.directory)
        assert not plan.directory.exists()
        assert kept.is_dir()

    # Ends of its own ----------------------------------------------------------------------

    async def test_a_killed_server_ends_its_sandbox_and_notifies_waiting_callers(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        word = secrets.token_hex(8)
        async with client(plan) as runtime:
            await runtime.run("echo kept > file")
            await self.run_in_background(runtime, f"bash -c 'sleep 1000; :' {word}")
        ending = asyncio.create_task(spawner.wait_for_unexpected_end(plan.session_id))
        server = self.server_of(plan)
        await asyncio.sleep(0)
        assert not ending.done()
        os.kill(server, signal.SIGKILL)
        await gone(server)
        assert await ending
        assert await spawner.running() == []
        await spawner.stop(plan.session_id)
        assert processes_with(word) == []
        assert sockets_of(plan) == []
        await spawner.start(plan)
        async with client(plan) as runtime:
            assert (await runtime.run("cat file")).content == "kept\n"

    async def test_a_start_after_a_kill_removes_the_remains_of_the_first_sandbox(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        word = secrets.token_hex(8)
        async with client(plan) as runtime:
            await self.run_in_background(runtime, f"bash -c 'sleep 1000; :' {word}")
        server = self.server_of(plan)
        os.kill(server, signal.SIGKILL)
        await gone(server)
        await spawner.start(plan)
        assert processes_with(word) == []
        async with client(plan) as runtime:
            assert (await runtime.run("echo up")).content == "up\n"

    async def test_a_killed_shell_is_replaced_and_the_sandbox_keeps_running(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        async with client(plan) as runtime:
            await runtime.run("kill -9 $$")
            assert (await runtime.run("echo up")).content == "up\n"
        assert len(await spawner.running()) == 1

    async def test_waiting_for_a_sandbox_that_does_not_run_returns_at_once(
        self, spawner: Spawner
    ) -> None:
        assert await spawner.wait_for_unexpected_end(new_session_id())

    # Looking ------------------------------------------------------------------------------

    async def test_usage_covers_all_processes_of_a_sandbox(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        before = await spawner.usage(plan.session_id)
        assert before.memory_bytes > 1 << 20
        assert before.processes >= 1
        async with client(plan) as runtime:
            seen = Seen()
            work = "for ((i = 0; i < 300000; i++)); do :; done; echo worked; cat"
            running = asyncio.create_task(runtime.run(work, on_progress=seen))
            await seen.wait_for(b"worked")
            after = await spawner.usage(plan.session_id)
            await runtime.interrupt()
            await running
        assert after.cpu_seconds >= before.cpu_seconds + 0.1
        assert after.processes > before.processes

    def server_of(self, plan: SandboxPlan) -> int:
        """The host's number of the action server's process."""
        return server_of(plan)

    def run_dir_inside(self, plan: SandboxPlan) -> str:
        """Where a session sees the directory of its sockets."""
        return "/run/bascule"

    async def test_disk_use_counts_everything_a_session_can_write(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        await spawner.start(plan)
        async with client(plan) as runtime:
            for where in ("/workspace", "~", self.run_dir_inside(plan)):
                before = await spawner.disk(plan.directory)
                here = "." if where == "/workspace" else where
                await runtime.run(f"head -c 8M /dev/urandom >{here}/big; sync {here}/big")
                assert await spawner.disk(plan.directory) >= before + (8 << 20), where
            assert (await spawner.disk(plan.directory.parent / new_session_id())) == 0

    async def test_the_log_tail_of_a_stopped_sandbox_is_kept(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        assert await spawner.log_tail(new_session_id()) == ""
        await spawner.start(plan)
        assert isinstance(await spawner.log_tail(plan.session_id, lines=3), str)
        await spawner.stop(plan.session_id)
        assert len((await spawner.log_tail(plan.session_id, lines=3)).splitlines()) <= 3
