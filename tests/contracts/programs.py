"""What every host of programs with pipes must do. A kind's tests subclass `ProgramSuite` and give
the fixture `host`."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import sys
from pathlib import Path

import pytest

from bascule.core.errors import (
    BasculeError,
    InvalidRequest,
    MessageTooLarge,
    NoSuchPath,
    NoSuchProgram,
    NotADirectory,
    PermissionRefused,
    ProgramInputClosed,
)
from bascule.core.programs import Program, ProgramHost, ProgramOutput, TerminalSize

COPIED_BYTES = int(os.environ.get("BASCULE_TEST_COPIED_BYTES", 64 << 20))
"""Bytes that go through a program; `make test` uses less than a benchmark."""
_BLOCK = os.urandom(1 << 20)


async def printed(program: Program) -> dict[str, bytes]:
    """All output of a program, by stream."""
    found = {"stdout": b"", "stderr": b""}
    async for piece in program.output():
        assert piece.dropped == 0
        assert piece.offset == len(found[piece.stream])
        found[piece.stream] += piece.data
    return found


async def until(program: Program, text: bytes) -> bytes:
    """The output from the start on, until `text` was printed."""
    seen = b""
    async with contextlib.aclosing(program.output()) as output:
        async for piece in output:
            seen += piece.data
            if text in seen:
                return seen
    raise AssertionError(f"the program printed only {seen!r}")


def sh(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script)


class ProgramSuite:
    # Programs that belong to one client ---------------------------------------------------

    async def test_a_program_with_an_unread_limit_ends_after_its_last_reader(
        self, host: ProgramHost
    ) -> None:
        program = await host.start_program(sh("echo begun; exec sleep 1000"), unread_limit=0.3)
        await until(program, b"begun")  # reads, and then no longer
        assert await program.wait() < 0

    async def test_a_program_with_an_unread_limit_runs_while_it_is_read(
        self, host: ProgramHost
    ) -> None:
        program = await host.start_program(sh("sleep 1; echo done"), unread_limit=0.5)
        assert (await printed(program))["stdout"] == b"done\n"
        assert await program.wait() == 0

    async def test_stderr_can_be_joined_to_stdout(self, host: ProgramHost) -> None:
        lines = "for i in 1 2 3; do echo out $i; echo err $i >&2; done"
        program = await host.start_program(sh(lines), joins_stderr=True)
        expected = b"".join(b"out %d\nerr %d\n" % (i, i) for i in (1, 2, 3))
        assert await printed(program) == {"stdout": expected, "stderr": b""}

    async def test_a_program_gets_its_secret_variables(self, host: ProgramHost) -> None:
        program = await host.start_program(sh('echo "$KEY"'), secret_env={"KEY": "a b"})
        assert (await printed(program))["stdout"] == b"a b\n"
        with pytest.raises(InvalidRequest, match="'KEY' is in `env` and in `secret_env`"):
            await host.start_program(["true"], env={"KEY": "a"}, secret_env={"KEY": "b"})
        with pytest.raises(InvalidRequest, match="`unread_limit` must be between"):
            await host.start_program(["true"], unread_limit=-1)

    # Input and output ---------------------------------------------------------------------

    async def test_stdout_and_stderr_are_apart_and_in_order(self, host: ProgramHost) -> None:
        script = "for i in 1 2 3; do echo out $i; read word; echo err $i >&2; read word; done"
        program = await host.start_program(sh(script))
        found: list[tuple[str, bytes]] = []
        async for piece in program.output():
            found.append((piece.stream, piece.data))
            await program.write(b"go on\n")
        assert found == [
            (stream, f"{word} {number}\n".encode())
            for number in (1, 2, 3)
            for stream, word in (("stdout", "out"), ("stderr", "err"))
        ]
        assert await program.wait() == 0

    async def test_exit_code_and_output_are_available_after_a_program_ends(
        self, host: ProgramHost
    ) -> None:
        program = await host.start_program(sh("echo out; echo err >&2; exit 3"))
        assert await program.wait() == 3
        assert await printed(program) == {"stdout": b"out\n", "stderr": b"err\n"}
        status = await program.status()
        assert (status.exit_code, status.stdout, status.stderr) == (3, 4, 4)
        assert not status.is_running
        killed = await host.start_program(sh("kill -KILL $$"))
        assert await killed.wait() == -signal.SIGKILL

    async def test_arguments_reach_a_program_unchanged(self, host: ProgramHost) -> None:
        words = ("two words", "$HOME", "a'b\"c", "*", "", "new\nline", "ü", "-n")
        program = await host.start_program(
            [sys.executable, "-c", "import sys; print(sys.argv[1:])", *words]
        )
        assert (await printed(program))["stdout"].decode() == f"{list(words)}\n"

    async def test_a_program_takes_a_million_bytes_of_arguments(self, host: ProgramHost) -> None:
        program = await host.start_program(["printf", "%s", *["x" * 65536] * 16])
        received = 0
        async for piece in program.output():
            received += len(piece.data) + piece.dropped
        assert received == 1 << 20
        assert len("".join((await program.status()).argv)) < 128 << 10

    async def test_closing_stdin_ends_the_programs_input(self, host: ProgramHost) -> None:
        program = await host.start_program(["cat"])
        await program.write(b"first ")
        assert await until(program, b"first ") == b"first "
        await program.write(b"last")
        await program.close_stdin()
        await program.close_stdin()
        assert await printed(program) == {"stdout": b"first last", "stderr": b""}
        assert (await program.status()).stdin == 10

    async def test_much_data_passes_through_a_program_unchanged(self, host: ProgramHost) -> None:
        blocks = max(COPIED_BYTES // len(_BLOCK), 1)
        program = await host.start_program(["cat"])

        async def feed() -> None:
            for _ in range(blocks):
                await program.write(_BLOCK)
            await program.close_stdin()

        feeding = asyncio.create_task(feed())
        received, digest = 0, hashlib.sha256()
        async for piece in program.output():
            assert piece.dropped == 0
            received += len(piece.data)
            digest.update(piece.data)
        await feeding
        expected = hashlib.sha256()
        for _ in range(blocks):
            expected.update(_BLOCK)
        assert received == blocks * len(_BLOCK)
        assert digest.hexdigest() == expected.hexdigest()

    async def test_a_program_without_readers_never_blocks_and_the_gap_is_reported(
        self, host: ProgramHost
    ) -> None:
        size = 8 << 20
        program = await host.start_program(sh(f"head -c {size} /dev/zero; echo end >&2"))
        assert await program.wait() == 0
        pieces = [piece async for piece in program.output()]
        first = next(piece for piece in pieces if piece.stream == "stdout")
        kept = sum(len(piece.data) for piece in pieces if piece.stream == "stdout")
        assert first.dropped == first.offset == size - kept
        assert 0 < kept < 4 << 20
        assert pieces[-1] == ProgramOutput("stderr", 0, b"end\n")

    async def test_a_program_can_wait_for_its_first_reader(self, host: ProgramHost) -> None:
        size = 8 << 20
        program = await host.start_program(
            sh(f"head -c {size} /dev/zero; echo end >&2"), waits_for_reader=True
        )
        while not (await program.status()).stdout:
            await asyncio.sleep(0)  # it prints before there is a reader
        pieces = [piece async for piece in program.output()]
        assert [piece.dropped for piece in pieces] == [0] * len(pieces)
        assert sum(len(piece.data) for piece in pieces) == size + 4

    async def test_another_client_attaches_and_reads_on_from_a_position(
        self, host: ProgramHost
    ) -> None:
        program = await host.start_program(sh("echo one; echo two >&2; cat"))
        while (await program.status()).stderr < 4:  # until both lines are there
            await until(program, b"two")
        same = await host.find_program(program.id)
        await same.write(b"three")
        await same.close_stdin()
        pieces = [piece async for piece in same.output(stdout=2, stderr=4)]
        assert b"".join(piece.data for piece in pieces) == b"e\nthree"
        assert (pieces[0].offset, pieces[0].stream) == (2, "stdout")
        listed = {each.id: each for each in await host.list_programs()}
        assert listed[program.id].argv == sh("echo one; echo two >&2; cat")

    async def test_many_programs_run_at_once(self, host: ProgramHost) -> None:
        programs = await asyncio.gather(*(host.start_program(["cat"]) for _ in range(20)))
        for number, program in enumerate(programs):
            await program.write(f"{number}".encode())
            await program.close_stdin()
        found = await asyncio.gather(*map(printed, programs))
        assert [each["stdout"].decode() for each in found] == [f"{n}" for n in range(20)]

    # Where it runs ------------------------------------------------------------------------

    async def test_a_program_gets_the_requested_directory_and_variables(
        self, host: ProgramHost, workspace: Path
    ) -> None:
        (workspace / "inner").mkdir()
        script = 'pwd; echo "$WORD"; echo "$PWD"'
        program = await host.start_program(sh(script), cwd="inner", env={"WORD": "a  b"})
        text = (await printed(program))["stdout"].decode()
        assert text == f"{workspace}/inner\na  b\n{workspace}/inner\n"
        (workspace / "tool").write_text("#!/bin/sh\necho mine $0\n")
        (workspace / "tool").chmod(0o755)
        program = await host.start_program(["../tool"], cwd="inner")
        assert b"mine" in (await printed(program))["stdout"]

    async def test_an_entry_of_path_that_cannot_be_read_is_passed_over(
        self, host: ProgramHost
    ) -> None:
        search_path = f"/{'x' * 300}:{os.environ['PATH']}"
        program = await host.start_program(["true"], env={"PATH": search_path})
        assert await program.wait() == 0

    async def test_a_program_on_a_terminal_has_its_size_and_its_keys(
        self, host: ProgramHost
    ) -> None:
        program = await host.start_program(
            sh("stty size; read line; stty size; cat"), terminal=TerminalSize(columns=91, rows=31)
        )
        await until(program, b"31 91")
        await program.resize(TerminalSize(columns=92, rows=32))
        await program.write(b"\n")
        await until(program, b"32 92")
        await program.close_stdin()
        assert await program.wait() == 0
        assert (await program.status()).has_terminal
        pipes = await host.start_program(["true"])
        with pytest.raises(InvalidRequest, match="no terminal"):
            await pipes.resize(TerminalSize())

    # Its end ------------------------------------------------------------------------------

    async def test_signals_reach_a_program_and_its_children(self, host: ProgramHost) -> None:
        program = await host.start_program(
            sh("trap 'echo caught; exit 5' USR1; echo up; read line")
        )
        await until(program, b"up")
        await program.signal("SIGUSR1")
        assert await program.wait() == 5
        assert (await printed(program))["stdout"] == b"up\ncaught\n"
        await program.signal("SIGTERM")  # it has ended: no effect
        with pytest.raises(InvalidRequest, match="SIGNOTHING"):
            await program.signal("SIGNOTHING")

    async def test_killing_ends_children_that_ignore_sigterm_too(self, host: ProgramHost) -> None:
        script = "trap '' TERM; sleep 1000 & echo $!; cat; sleep 1000"
        program = await host.start_program(sh(script))
        child = int(await until(program, b"\n"))
        assert await program.kill() == -signal.SIGKILL
        await ended(child)
        assert await program.kill() == -signal.SIGKILL

    async def test_a_program_gets_sigterm_before_it_is_killed(self, host: ProgramHost) -> None:
        program = await host.start_program(sh("trap 'echo bye; exit 0' TERM; echo up; read line"))
        await until(program, b"up")
        assert await program.kill() == 0
        assert (await printed(program))["stdout"] == b"up\nbye\n"

    async def test_writing_to_a_program_that_ended_is_refused(self, host: ProgramHost) -> None:
        program = await host.start_program(["true"])
        await program.wait()
        with pytest.raises(ProgramInputClosed):
            await program.write(b"x")
        deaf = await host.start_program(sh("exec <&-; echo closed; exec sleep 1000"))
        await until(deaf, b"closed")
        with pytest.raises(ProgramInputClosed):
            await deaf.write(b"x")
        await deaf.kill()

    async def test_a_blocked_write_fails_when_the_program_ends(self, host: ProgramHost) -> None:
        program = await host.start_program(["sleep", "1000"])
        writing = asyncio.create_task(program.write(bytes(4 << 20)))
        while not (await program.status()).stdin:  # until the pipe is full
            await asyncio.wait({writing}, timeout=0.01)
        await program.kill()
        with pytest.raises(ProgramInputClosed):
            await writing

    # What cannot be asked -----------------------------------------------------------------

    async def test_a_program_that_cannot_start_is_reported_by_name(
        self, host: ProgramHost, workspace: Path
    ) -> None:
        (workspace / "file").write_text("text")
        (workspace / "broken").write_bytes(b"\0not a program")
        (workspace / "broken").chmod(0o755)
        refusals: tuple[tuple[dict[str, object], type[BasculeError], str], ...] = (
            ({"argv": []}, InvalidRequest, "argv"),
            ({"argv": "ls -l"}, InvalidRequest, "argv"),
            ({"argv": [""]}, InvalidRequest, "argv"),
            ({"argv": ["ls", 7]}, InvalidRequest, "argv"),
            ({"argv": ["ls", "a\0b"]}, InvalidRequest, "NUL"),
            ({"argv": ["ls", "\ud800"]}, InvalidRequest, "Unicode|UTF-8"),
            ({"argv": ["ls", "x" * 200_000]}, MessageTooLarge, "131071"),
            ({"argv": ["ls", *["x" * 100_000] * 16]}, MessageTooLarge, "1572864"),
            ({"argv": ["no-such-program"]}, NoSuchPath, "no-such-program"),
            ({"argv": ["./no-such-program"]}, NoSuchPath, "no-such-program"),
            ({"argv": ["./file"]}, PermissionRefused, "file"),
            ({"argv": ["./broken"]}, InvalidRequest, "broken"),
            ({"argv": ["ls"], "cwd": "nowhere"}, NoSuchPath, "nowhere"),
            ({"argv": ["ls"], "cwd": "file"}, NotADirectory, "file"),
            ({"argv": ["x" * 300]}, NoSuchPath, "there is no program"),
            ({"argv": ["./" + "x" * 300]}, NoSuchPath, "cannot be reached"),
            ({"argv": ["ls"], "cwd": "x" * 300}, NoSuchPath, "cannot be reached"),
            ({"argv": ["ls"], "cwd": 7}, InvalidRequest, "cwd"),
            ({"argv": ["ls"], "waits_for_reader": 1}, InvalidRequest, "waits_for_reader"),
            ({"argv": ["ls"], "env": {"A=B": "1"}}, InvalidRequest, "A=B"),
            ({"argv": ["ls"], "env": {"A": 1}}, InvalidRequest, "env.A"),
            ({"argv": ["ls"], "env": ["A"]}, InvalidRequest, "env"),
            ({"argv": ["ls"], "user": "no-such-user"}, BasculeError, "no-such-user"),
            ({"argv": ["ls"], "terminal": TerminalSize(rows=0)}, InvalidRequest, "rows"),
        )
        for arguments, error, text in refusals:
            with pytest.raises(error, match=text):
                await host.start_program(**arguments)  # type: ignore[arg-type]
        with pytest.raises(NoSuchProgram, match="nobody"):
            await (await host.find_program("nobody")).status()
        program = await host.start_program(["echo", "still works"])
        assert await printed(program) == {"stdout": b"still works\n", "stderr": b""}


async def ended(pid: int) -> None:
    """Return when the process has ended; the test's own timeout limits the time."""
    over = asyncio.Event()
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    asyncio.get_running_loop().add_reader(descriptor, over.set)
    try:
        await over.wait()
    finally:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
