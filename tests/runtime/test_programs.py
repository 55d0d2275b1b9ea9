"""Programs with pipes in every runtime that has them, and what is left when a process is killed."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from inspect import signature
from pathlib import Path

import pytest

from bascule.core.errors import (
    ConsentDenied,
    DeniedByRule,
    NoSuchProgram,
    PermissionRefused,
    SandboxStartFailed,
    UsageError,
)
from bascule.core.programs import ProgramHost, TerminalSize
from bascule.runtime import LocalRuntime
from bascule.sandbox.shell.keeper import Keeper
from tests.contracts.programs import ProgramSuite, ended, printed, sh, until
from tests.contracts.runtime import settings
from tests.runtime.test_cloud import CloudWithHub
from tests.runtime.test_remote import Served


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


class TestInProcess(ProgramSuite):
    @pytest.fixture
    async def host(self, workspace: Path) -> AsyncIterator[ProgramHost]:
        async with LocalRuntime(workspace) as runtime:
            yield runtime


@pytest.mark.slow
class TestChildProcess(ProgramSuite):
    @pytest.fixture
    async def host(self, workspace: Path) -> AsyncIterator[ProgramHost]:
        async with LocalRuntime(workspace, process=True) as runtime:
            yield runtime


class TestRemote(ProgramSuite):
    @pytest.fixture
    async def host(self, workspace: Path) -> AsyncIterator[ProgramHost]:
        async with Served(settings(workspace)) as runtime:
            yield runtime


@pytest.mark.slow
class TestCloud:
    async def test_a_session_passes_the_whole_suite(self, workspace: Path) -> None:
        """In one session: a hub and a session for each test would take a minute."""
        suite = ProgramSuite()
        tests = [getattr(suite, name) for name in dir(suite) if name.startswith("test_")]
        async with CloudWithHub(settings(workspace)) as runtime:
            for test in tests:
                more = {"workspace": workspace} if "workspace" in signature(test).parameters else {}
                await test(host=runtime, **more)


@pytest.fixture
async def runtime(workspace: Path) -> AsyncIterator[LocalRuntime]:
    async with LocalRuntime(workspace) as runtime:
        yield runtime


async def test_a_runtime_has_to_be_connected_before_it_starts_programs() -> None:
    with pytest.raises(UsageError, match="not connected"):
        await LocalRuntime().start_program(["true"])


async def test_closing_a_runtime_ends_its_programs(workspace: Path) -> None:
    async with LocalRuntime(workspace) as runtime:
        program = await runtime.start_program(sh("sleep 1000 & echo $!; cat"))
        child = int(await until(program, b"\n"))
    await ended(child)
    assert await program.wait() == -signal.SIGTERM


async def test_a_cancelled_kill_leaves_other_kills_alone(runtime: LocalRuntime) -> None:
    program = await runtime.start_program(sh("trap '' TERM; echo up; while :; do read x; done"))
    await until(program, b"up")
    kills = [asyncio.create_task(program.kill()) for _ in range(3)]
    await asyncio.sleep(0)  # so that all of them wait
    kills[1].cancel()
    found = await asyncio.gather(*kills, return_exceptions=True)
    assert isinstance(found.pop(1), asyncio.CancelledError)
    assert found == [-signal.SIGKILL, -signal.SIGKILL]


async def test_a_kill_after_the_end_sends_nothing_to_the_pid(
    runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_pids: list[int] = []
    end = Keeper.end

    async def noted_end(keeper: Keeper, pid: int) -> None:
        ended_pids.append(pid)
        await end(keeper, pid)

    monkeypatch.setattr(Keeper, "end", noted_end)
    running = await runtime.start_program(["cat"])
    program = await runtime.start_program(sh("exit 3"))
    assert await program.wait() == 3
    assert await program.kill() == 3
    assert ended_pids == []
    assert await running.kill() == -signal.SIGTERM
    assert ended_pids == [(await running.status()).pid]


async def test_a_program_is_remembered_by_when_it_ended(runtime: LocalRuntime) -> None:
    cat = await runtime.start_program(["cat"])
    first, *_ = [await _run_true(runtime) for _ in range(65)]
    assert await cat.kill() == -signal.SIGTERM
    assert (await (await runtime.find_program(cat.id)).status()).exit_code == -signal.SIGTERM
    with pytest.raises(NoSuchProgram, match=first):
        await runtime.find_program(first)


async def _run_true(runtime: LocalRuntime) -> str:
    program = await runtime.start_program(["true"])
    await program.wait()
    await printed(program)  # its output ends when the program is complete
    return program.id


@pytest.mark.parametrize("failing", ["pipe2", "dup"])
async def test_a_start_without_free_descriptors_leaves_none_open(
    runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    terminal = TerminalSize() if failing == "dup" else None
    await _run_true(runtime)  # starts the keeper
    before = _descriptors(os.getpid())
    succeeding = [os.pipe2, os.pipe2] if failing == "pipe2" else []

    def fail(argument: int) -> object:
        if succeeding:
            return succeeding.pop()(argument)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, fail)
        with pytest.raises(SandboxStartFailed, match=r"did not start: .*Too many open files"):
            await runtime.start_program(["cat"], terminal=terminal)
    assert _descriptors(os.getpid()) == before
    await _run_true(runtime)


async def test_programs_leak_no_descriptors(runtime: LocalRuntime) -> None:
    await (await runtime.start_program(["true"])).wait()  # starts the keeper
    keeper = runtime._inner._sandbox.shells.keeper.pid  # type: ignore[union-attr]
    before = _descriptors(os.getpid()), _descriptors(keeper)
    for number in range(10):
        program = await runtime.start_program(["cat"])
        if number % 3 == 0:
            await program.kill()
        elif number % 3 == 1:
            await program.write(b"x")
            await program.close_stdin()
        else:
            await program.signal("SIGKILL")
        await printed(program)
        await program.wait()
        with pytest.raises(PermissionRefused, match="may not be run"):
            await runtime.start_program(["/"])
    while (now := (_descriptors(os.getpid()), _descriptors(keeper))) != before:
        assert now >= before
        await (await runtime.start_program(["true"])).wait()  # a round trip to the keeper
    assert now == before


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


async def test_a_background_child_keeps_running_and_can_print(runtime: LocalRuntime) -> None:
    script = "(read line <late; echo late; echo gone >&2) & echo started"
    os.mkfifo(runtime._working_dir / "late")  # type: ignore[operator]
    program = await runtime.start_program(sh(script))
    assert await printed(program) == {"stdout": b"started\n", "stderr": b""}
    await (await runtime.start_program(sh("echo go >late"))).wait()
    while b"gone" not in (found := await _all(program)):
        await asyncio.sleep(0)
    assert found == b"started\nlate\ngone\n"


async def _all(program: object) -> bytes:
    return b"".join([piece.data async for piece in program.output()])  # type: ignore[attr-defined]


async def test_two_hundred_programs_run_at_once(runtime: LocalRuntime) -> None:
    programs = await asyncio.gather(*(runtime.start_program(["cat"]) for _ in range(200)))
    assert len({(await each.status()).pid for each in programs}) == 200
    for each in programs:
        await each.write(each.id.encode())
        await each.close_stdin()
    found = await asyncio.gather(*map(printed, programs))
    assert [each["stdout"].decode() for each in found] == [each.id for each in programs]


async def test_a_stalled_reader_blocks_the_program_only_for_a_while(
    runtime: LocalRuntime,
) -> None:
    table = runtime._inner._sandbox.programs  # type: ignore[union-attr]
    table.stall_timeout = 0.05
    program = await table.start_program(sh("head -c 8000000 /dev/zero"))
    output = program.output()
    first = await anext(output)
    assert await program.wait() == 0  # it did not wait for the reader for ever
    pieces = [first, *[piece async for piece in output]]
    kept = sum(len(piece.data) for piece in pieces)
    dropped = sum(piece.dropped for piece in pieces)
    assert dropped > 0
    assert kept + dropped == 8_000_000


async def test_a_slow_reader_misses_nothing(runtime: LocalRuntime) -> None:
    program = await runtime.start_program(sh("read go; head -c 8000000 /dev/zero"))
    # A program does not wait before it has a reader, so it prints when this one has begun.
    going = asyncio.create_task(program.write(b"go\n"))
    received = 0
    async for piece in program.output():
        assert piece.dropped == 0
        received += len(piece.data)
        await asyncio.sleep(0.001)
    await going
    assert received == 8_000_000


async def test_a_program_that_prints_single_bytes_takes_little_memory(
    runtime: LocalRuntime,
) -> None:
    table = runtime._inner._sandbox.programs  # type: ignore[union-attr]
    script = "import os\nfor _ in range(20000): os.write(1, b'o'); os.write(2, b'e')"
    program = await table.start_program([sys.executable, "-c", script])
    assert await program.wait() == 0
    assert len(program._log._pieces) < 4096


@pytest.mark.slow
async def test_much_data_passes_through_a_sandbox_without_growth_of_its_memory(
    workspace: Path,
) -> None:
    block, blocks = bytes(1 << 20), 192
    async with LocalRuntime(workspace, process=True) as runtime:
        assert runtime._child is not None
        sandbox = runtime._child.pid
        program = await runtime.start_program(["cat"])

        async def copy(count: int) -> None:
            async def feed() -> None:
                for _ in range(count):
                    await program.write(block)

            feeding = asyncio.create_task(feed())
            status = await program.status()
            left = count * len(block)
            async for piece in program.output(stdout=status.stdout):
                assert piece.dropped == 0
                left -= len(piece.data)
                if not left:
                    break
            await feeding

        await copy(8)
        before = _peak(sandbox)
        await copy(blocks)
        assert _peak(sandbox) - before < 16 << 20
        await program.kill()


def _peak(pid: int | None) -> int:
    """The most bytes of memory that a process had so far."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(line) << 10


# Rules ----------------------------------------------------------------------------------------

RULES = """
[[deny]]
run = ["rm"]
why = "nothing is removed here"

[[allow]]
run = ["echo"]
"""


async def test_rules_for_commands_apply_to_programs(tmp_path: Path, workspace: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    async with LocalRuntime(workspace, rules=rules) as runtime:
        allowed = await runtime.start_program(["echo", "a b", "$(rm x)"])
        assert (await printed(allowed))["stdout"] == b"a b $(rm x)\n"
        with pytest.raises(DeniedByRule, match="nothing is removed here"):
            await runtime.start_program(["rm", "x"])
        with pytest.raises(DeniedByRule):
            await runtime.start_program(sh("echo a; rm x"))
        (workspace / "A=b").touch(mode=0o755)
        for words, env in (
            (["touch", "x"], {}),  # no rule
            (["A=b", "x"], {"PATH": str(workspace)}),
            (["echo", "x"], {"LD_PRELOAD": "./evil.so"}),
            (["echo", "x"], {"PATH": "/usr/bin:/bin"}),
            (["bash"], {}),  # it would run whatever is written to it
        ):
            with pytest.raises(ConsentDenied):
                await runtime.start_program(words, env=env)
        assert await runtime.list_programs() == [await allowed.status()]


# kill -9 ----------------------------------------------------------------------------------------

_KILLED = """
import asyncio, sys
from bascule.runtime import LocalRuntime

async def main():
    async with LocalRuntime(sys.argv[1]) as runtime:
        await runtime.start_program(["true"])
        pids = [runtime._inner._sandbox.shells.keeper.pid]
        for argv in (["sleep", "1000"], ["sh", "-c", "sleep 1000 & echo $!; exec sleep 1000"]):
            program = await runtime.start_program(argv)
            pids.append((await program.status()).pid)
        async for piece in program.output():
            pids.append(int(piece.data))
            break
        print(*pids, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("with_keeper", [False, True])
async def test_no_program_survives_kill_minus_nine(workspace: Path, with_keeper: bool) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(_KILLED), str(workspace)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    keeper, *programs, child = map(int, (await process.stdout.readline()).split())
    if with_keeper:
        os.kill(keeper, signal.SIGSTOP)  # so that it cannot end anything any longer
    process.kill()
    if with_keeper:
        os.kill(keeper, signal.SIGKILL)
    await process.wait()
    for pid in programs:
        await ended(pid)
    if with_keeper:  # only a session's spawner finds the children of such programs
        os.kill(child, signal.SIGKILL)
    await ended(child)
    await ended(keeper)


@pytest.mark.slow
async def test_a_program_runs_as_the_account_of_its_sandbox(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can switch to another account")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    async with LocalRuntime(settings=settings(workspace)) as runtime:
        script = "id -un; echo $HOME; echo x >/dev/stdout; echo y >/dev/stderr"
        program = await runtime.start_program(sh(script), user="nobody", cwd="/")
        found = await printed(program)
        assert found["stdout"].startswith(b"nobody\n")
        assert found["stdout"].endswith(b"x\n")
        assert found["stderr"] == b"y\n"
        assert (await program.status()).user == "nobody"
