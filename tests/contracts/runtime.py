"""What every kind of runtime must do. A kind's tests subclass `RuntimeSuite` and give `make`.

The runtimes share a machine with the tests, so `workspace` is looked at from both sides.
"""

from __future__ import annotations

import asyncio
import io
import os
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from bascule.core.actions import (
    Action,
    Browse,
    CmdRun,
    FileRead,
    IPythonRun,
    McpCall,
    Think,
)
from bascule.core.contracts import MANDATORY_CAPABILITIES, OutputProgress
from bascule.core.errors import (
    BasculeError,
    CommandInvalid,
    DirectoryNotEmpty,
    EditConflict,
    EditNoMatch,
    InvalidPattern,
    InvalidShellName,
    LogRangeGone,
    NoSuchPath,
    NoSuchShell,
)
from bascule.core.observations import CmdOutput, Error, IPythonOutput, Nothing, UserRejected
from bascule.runtime import Verbs
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings

Make = Callable[..., Verbs]
"""A runtime that is not connected yet, by `SandboxSettings` and keywords of its own."""


IMPOSSIBLE: tuple[Any, ...] = (-1, 0, float("nan"), float("inf"), "1")
"""Time-outs that are none."""
MEANINGLESS: tuple[tuple[Action, str], ...] = (
    (IPythonRun(None), "args.code"),  # type: ignore[arg-type]
    (IPythonRun("1", output_limit="x"), "args.output_limit"),  # type: ignore[arg-type]
    (IPythonRun("1", output_limit=1.5), "args.output_limit"),  # type: ignore[arg-type]
    (CmdRun(b"true"), "args.command"),  # type: ignore[arg-type]
    (CmdRun("true", shell=7), "args.shell"),  # type: ignore[arg-type]
    (Browse(None), "args.url"),  # type: ignore[arg-type]
    *((CmdRun("true", timeout=each), "timeout") for each in IMPOSSIBLE),
    *((IPythonRun("1", timeout=each), "timeout") for each in IMPOSSIBLE),
    *((Browse("about:blank", timeout=each), "timeout") for each in IMPOSSIBLE),
)
"""Actions that are refused, and the field that each error names."""


def settings(workspace: Path, **shells: object) -> SandboxSettings:
    return SandboxSettings(shells=ShellSettings(working_dir=workspace, **shells))  # type: ignore[arg-type]


async def gone(pid: int) -> None:
    """Returns when the process has ended; the test's own timeout bounds it."""
    ended = asyncio.Event()
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    asyncio.get_running_loop().add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


class Seen:
    """Collects progress, and waits for a piece of text in it."""

    def __init__(self) -> None:
        self.pieces: list[OutputProgress] = []
        self._changed = asyncio.Event()

    def __call__(self, progress: OutputProgress) -> None:
        self.pieces.append(progress)
        self._changed.set()

    @property
    def data(self) -> bytes:
        return b"".join(piece.data for piece in self.pieces)

    async def wait_for(self, text: bytes) -> None:
        while text not in self.data:
            self._changed.clear()
            await self._changed.wait()


class RuntimeSuite:
    commands_in_a_row = 300
    rounds_of_writing = 3

    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Path:
        path = tmp_path / "workspace"
        path.mkdir()
        return path

    @pytest.fixture
    async def runtime(self, make: Make, workspace: Path) -> AsyncIterator[Verbs]:
        async with make(settings(workspace)) as runtime:
            yield runtime

    # What cannot be asked -----------------------------------------------------------------

    async def test_an_action_with_an_invalid_field_is_rejected_and_names_the_field(
        self, runtime: Verbs
    ) -> None:
        for action, field in MEANINGLESS:
            seen = await runtime.act(action)

            assert isinstance(seen, Error), (action, seen)
            assert (seen.error_id, seen.cause) == ("action.invalid", action.id), action
            assert f"{action.kind} action: `{field}` must be" in seen.content, action

    async def test_a_command_that_is_not_valid_utf8_is_rejected(self, runtime: Verbs) -> None:
        with pytest.raises(CommandInvalid, match="no UTF-8 form"):
            await runtime.run("echo '\udcff'")

    # Commands -----------------------------------------------------------------------------

    async def test_every_runtime_has_the_mandatory_capabilities(self, runtime: Verbs) -> None:
        assert runtime.capabilities >= MANDATORY_CAPABILITIES

    async def test_a_command_is_answered_with_its_output_and_status(self, runtime: Verbs) -> None:
        action = CmdRun("echo out; echo err >&2; exit_with() { return $1; }; exit_with 3")
        seen = await runtime.act(action)

        assert isinstance(seen, CmdOutput)
        assert seen.content == "out\nerr\n"
        assert seen.exit_code == 3
        assert seen.cause == action.id
        assert seen.timestamp is not None
        assert seen.source == "environment"

    async def test_a_shell_keeps_state_between_commands(
        self, runtime: Verbs, workspace: Path
    ) -> None:
        await runtime.run("mkdir inner && cd inner && word=kept")
        seen = await runtime.run("echo $word in $PWD")
        assert seen.content == f"kept in {workspace}/inner\n"
        assert seen.metadata.working_dir == f"{workspace}/inner"

    @pytest.mark.slow
    async def test_commands_in_a_row_each_get_their_own_answer(self, runtime: Verbs) -> None:
        for n in range(self.commands_in_a_row):
            seen = await runtime.run(f"echo word-{n}; (exit {n % 7})")
            assert (seen.content, seen.exit_code) == (f"word-{n}\n", n % 7)

    async def test_named_shells_share_no_state(self, runtime: Verbs) -> None:
        await runtime.run("word=here", shell="one")
        assert (await runtime.run("echo $word.", shell="two")).content == ".\n"
        assert (await runtime.run("echo $word.", shell="one")).content == "here.\n"

    async def test_text_arrives_as_it_was_printed(self, runtime: Verbs) -> None:
        text = "ünïcödé 漢字 🙂\t\x1b[1mbold\x1b[0m  trailing  \n\n"
        seen = await runtime.run(f"cat <<'END'\n{text}END")
        assert seen.content == text

    async def test_invalid_utf8_bytes_are_kept_exactly_in_the_log(self, runtime: Verbs) -> None:
        seen = await runtime.run(r"printf 'a\0b\377\376c'")
        meta = seen.metadata
        assert await runtime.read_log(start=meta.log_start, end=meta.log_end) == b"a\0b\xff\xfec"
        assert "\ufffd" in seen.content

    async def test_a_long_command_line_arrives_whole(self, runtime: Verbs) -> None:
        word = "x" * 200_000
        assert (await runtime.run(f"w={word}; echo ${{#w}}")).content == "200000\n"

    @pytest.mark.slow
    async def test_large_output_is_returned_in_full_on_request(self, runtime: Verbs) -> None:
        seen = await runtime.run("seq 1 400000", output_limit=0)
        assert seen.content == "".join(f"{n}\n" for n in range(1, 400_001))

    async def test_output_past_the_limit_keeps_head_and_tail_and_the_log_keeps_all(
        self, runtime: Verbs
    ) -> None:
        seen = await runtime.run("seq 1 20000", output_limit=1000)
        meta = seen.metadata
        assert seen.content.startswith("1\n2\n")
        assert seen.content.endswith("19999\n20000\n")
        assert meta.left_out_bytes > 0
        whole = await runtime.read_log(start=meta.log_start, end=meta.log_end)
        assert whole == b"".join(b"%d\n" % n for n in range(1, 20_001))

    async def test_a_static_command_does_not_change_the_shell(
        self, runtime: Verbs, workspace: Path
    ) -> None:
        (workspace / "elsewhere").mkdir()
        await runtime.run("word=kept")
        static = CmdRun("echo $PWD [$word]; cd /; word=lost", is_static=True, cwd="elsewhere")
        assert (await runtime.act(static)).content == f"{workspace}/elsewhere []\n"
        assert (await runtime.run("echo $PWD $word")).content == f"{workspace} kept\n"

    async def test_a_command_runs_where_it_is_told_to(
        self, runtime: Verbs, workspace: Path
    ) -> None:
        (workspace / "it's here").mkdir()
        assert (await runtime.run("echo $PWD", cwd="it's here")).content.endswith("/it's here\n")
        refused = await runtime.run("echo done", cwd="nowhere")
        assert refused.exit_code == 1
        assert "done" not in refused.content

    async def test_an_invalid_shell_name_is_an_error(self, runtime: Verbs) -> None:
        with pytest.raises(InvalidShellName):
            await runtime.run("true", shell="../evil")

    @pytest.mark.slow
    async def test_cells_share_a_kernel(self, runtime: Verbs) -> None:
        await runtime.run_ipython("x = 41")
        action = IPythonRun("print(x + 1)")
        seen = await runtime.act(action)

        assert isinstance(seen, IPythonOutput)
        assert seen.content.startswith("42\n")
        assert seen.cause == action.id
        assert not (await runtime.interrupt("ipython")).was_running

    # Time and concurrency -----------------------------------------------------------------

    async def test_a_command_past_its_timeout_keeps_running_and_accepts_input(
        self, runtime: Verbs
    ) -> None:
        seen = await runtime.run("echo asked; read word; echo got $word", timeout=0.1)
        assert (seen.exit_code, seen.metadata.timed_out) == (-1, "hard")
        answer = await runtime.run("this", is_input=True)
        assert "got this\n" in seen.content + answer.content
        assert answer.exit_code == 0

    async def test_commands_without_a_timeout_get_the_one_of_the_runtime(
        self, make: Make, workspace: Path
    ) -> None:
        async with make(settings(workspace), default_timeout=0.1) as runtime:
            seen = await runtime.run("cat")
            assert (seen.exit_code, seen.metadata.timed_out) == (-1, "hard")
            assert (await runtime.interrupt()).was_running
            seen = await runtime.run("sleep 0.3; echo over", shell="other", timeout=None)
            assert (seen.exit_code, seen.content) == (0, "over\n")

    @pytest.mark.slow
    async def test_a_silent_command_returns_early_unless_it_is_blocking(
        self, make: Make, workspace: Path
    ) -> None:
        async with make(settings(workspace, soft_timeout=0.1)) as runtime:
            seen = await runtime.run("cat")
            assert (seen.exit_code, seen.metadata.timed_out) == (-1, "soft")
            await runtime.interrupt()
            while (await runtime.run("")).exit_code == -1:
                pass  # the interrupt may take longer than the silence that is waited for
            assert (await runtime.run("sleep 0.3", blocking=True)).exit_code == 0

    async def test_a_command_sent_while_another_runs_is_rejected_or_queued_on_request(
        self, runtime: Verbs
    ) -> None:
        await runtime.run("read line", timeout=0.05)
        assert (await runtime.run("echo no")).metadata.state == "refused"
        queued = asyncio.create_task(runtime.run("echo yes", queue=True))
        await runtime.run("", is_input=False, timeout=0.05)
        await runtime.interrupt()
        assert (await queued).content == "yes\n"

    async def test_an_interrupt_ends_the_program_and_says_so(self, runtime: Verbs) -> None:
        seen = Seen()
        running = asyncio.create_task(runtime.run("echo up; sleep 60", on_progress=seen))
        await seen.wait_for(b"up")
        assert (await runtime.interrupt()).was_running
        assert (await running).exit_code == 130
        assert not (await runtime.interrupt()).was_running

    async def test_shells_do_not_wait_for_each_other(self, runtime: Verbs) -> None:
        await runtime.run("mkfifo pipe")
        waiting = asyncio.create_task(runtime.run("read word < pipe; echo $word", shell="reader"))
        await runtime.run("echo handed over > pipe", shell="writer")
        assert (await waiting).content == "handed over\n"

    async def test_files_do_not_wait_for_a_command(self, runtime: Verbs) -> None:
        await runtime.write("note", "text")
        seen = Seen()
        running = asyncio.create_task(runtime.run("echo up; cat", on_progress=seen))
        await seen.wait_for(b"up")
        assert (await runtime.read("note")).content == "text\n"
        await runtime.interrupt()
        await running

    @pytest.mark.slow
    async def test_concurrent_actions_each_get_their_own_answer(self, runtime: Verbs) -> None:
        shells = [f"shell-{n}" for n in range(10)]

        async def talk(shell: str) -> None:
            for n in range(10):
                assert (await runtime.run(f"echo {shell} {n}", shell=shell)).content == (
                    f"{shell} {n}\n"
                )

        await asyncio.gather(*map(talk, shells))

    async def test_cancelling_ends_the_command_and_leaves_the_shell_usable(
        self, runtime: Verbs
    ) -> None:
        seen = Seen()
        running = asyncio.create_task(runtime.run("word=kept; echo $BASHPID up", on_progress=seen))
        await running
        running = asyncio.create_task(
            runtime.run("sleep 60 & echo pid=$!=; wait", on_progress=seen)
        )
        await seen.wait_for(b"=\n")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert (await runtime.run("echo $word")).content == "kept\n"

    async def test_cancelling_an_action_without_progress_ends_the_program(
        self, runtime: Verbs, workspace: Path
    ) -> None:
        os.mkfifo(workspace / "started")
        running = asyncio.create_task(
            runtime.run("bash -c 'echo $$ > started; exec sleep 60'", output_limit=0)
        )
        pid = int(await asyncio.to_thread((workspace / "started").read_text))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await gone(pid)
        assert (await runtime.run("echo usable")).content == "usable\n"

    @pytest.mark.slow
    async def test_an_action_cancelled_at_once_does_not_block_the_next(
        self, runtime: Verbs
    ) -> None:
        await runtime.run("true")
        for n in range(20):
            running = asyncio.create_task(runtime.run("sleep 60"))
            for _ in range(n):
                await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert (await runtime.run(f"echo {n}")).content == f"{n}\n"

    # Progress -----------------------------------------------------------------------------

    async def test_output_is_reported_while_the_command_runs(self, runtime: Verbs) -> None:
        seen = Seen()
        running = asyncio.create_task(
            runtime.run("echo first; read word; echo $word", on_progress=seen)
        )
        await seen.wait_for(b"first\n")
        assert not running.done()
        await runtime.run("second", is_input=True)
        answer = await running
        assert answer.exit_code == 0
        assert b"second\n" in seen.data

    async def test_progress_is_all_of_the_output_in_order(self, runtime: Verbs) -> None:
        seen = Seen()
        answer = await runtime.run("seq 1 100000", on_progress=seen)
        assert seen.data == b"".join(b"%d\n" % n for n in range(1, 100_001))
        position = answer.metadata.log_start
        for piece in seen.pieces:
            assert (piece.shell, piece.offset) == ("main", position)
            position += len(piece.data)
        assert position == answer.metadata.log_end

    async def test_progress_contains_only_output_of_the_actions_shell(self, runtime: Verbs) -> None:
        seen = Seen()
        running = asyncio.create_task(
            runtime.run("echo mine; read word", shell="mine", on_progress=seen)
        )
        await seen.wait_for(b"mine\n")
        await runtime.run("echo theirs", shell="theirs")
        await runtime.run("", shell="mine", is_input=True)
        await runtime.interrupt("mine")
        await running
        assert b"theirs" not in seen.data

    # What it cannot do --------------------------------------------------------------------

    @pytest.mark.parametrize("action", [McpCall("fetch"), Think("hm")])
    async def test_an_unsupported_kind_is_an_error_that_lists_the_supported_ones(
        self, runtime: Verbs, action: McpCall | Think
    ) -> None:
        seen = await runtime.act(action)
        assert isinstance(seen, Error)
        assert seen.error_id == "capability.missing"
        assert seen.cause == action.id
        assert action.kind in seen.content
        assert all(kind in seen.content for kind in runtime.capabilities)

    @pytest.mark.parametrize("kind", [CmdRun, IPythonRun])
    async def test_an_unconfirmed_or_rejected_action_is_not_executed(
        self, runtime: Verbs, workspace: Path, kind: type[CmdRun | IPythonRun]
    ) -> None:
        text = f"open({str(workspace / 'done')!r}, 'w')" if kind is IPythonRun else "touch done"
        waiting = kind(text, confirmation_state="awaiting_confirmation")
        refused = kind(text, confirmation_state="rejected")
        assert isinstance(await runtime.act(waiting), Nothing)
        assert isinstance(await runtime.act(refused), UserRejected)
        assert not (workspace / "done").exists()

    # Files --------------------------------------------------------------------------------

    async def test_files_are_written_read_and_edited(self, runtime: Verbs, workspace: Path) -> None:
        await runtime.write("deep/note.txt", "one\ntwo\nthree\n")
        assert (await runtime.read("deep/note.txt", start=1, end=2)).content == "two\n"
        path = str(workspace / "deep/note.txt")
        edited = await runtime.edit(path, "str_replace", old_str="two", new_str="zwei 🙂")
        assert "zwei" in (edited.diff or "")
        assert (workspace / "deep/note.txt").read_text() == "one\nzwei 🙂\nthree\n"
        await runtime.edit(path, "undo_edit")
        assert (workspace / "deep/note.txt").read_text() == "one\ntwo\nthree\n"

    async def test_undoing_an_edit_keeps_changes_that_others_saved_since(
        self, runtime: Verbs, workspace: Path
    ) -> None:
        note = workspace / "note.txt"
        note.write_text("one\ntwo\nthree\nfour\nfive\n")
        await runtime.edit(str(note), "str_replace", old_str="two", new_str="zwei")
        note.write_text(note.read_text().replace("five", "saved by a person"))
        await runtime.edit(str(note), "undo_edit")
        assert note.read_text() == "one\ntwo\nthree\nfour\nsaved by a person\n"

        await runtime.edit(str(note), "str_replace", old_str="two", new_str="zwei")
        theirs = note.read_text().replace("zwei", "by a person as well")
        note.write_text(theirs)
        with pytest.raises(EditConflict):
            await runtime.edit(str(note), "undo_edit")
        assert note.read_text() == theirs

    async def test_an_edit_without_a_match_raises(self, runtime: Verbs, workspace: Path) -> None:
        await runtime.write("note", "text")
        with pytest.raises(EditNoMatch):
            await runtime.edit(
                str(workspace / "note"), "str_replace", old_str="absent", new_str="y"
            )

    async def test_relative_paths_start_where_the_shell_is(
        self, runtime: Verbs, workspace: Path
    ) -> None:
        await runtime.run("mkdir inner; cd inner")
        await runtime.write("note", "here")
        assert (workspace / "inner/note").read_text() == "here\n"

    async def test_directories_are_made_listed_and_removed(
        self, runtime: Verbs, workspace: Path
    ) -> None:
        assert (await runtime.make_dir("a/b")).created
        assert not (await runtime.make_dir("a/b")).created
        await runtime.write("a/note", "text")
        listing = await runtime.list_dir("a")
        assert [(entry.path, entry.type) for entry in listing.entries] == [
            ("b", "directory"),
            ("note", "file"),
        ]
        with pytest.raises(DirectoryNotEmpty):
            await runtime.remove_dir("a")
        await runtime.remove("a/note")
        await runtime.remove_dir("a", recursive=True)
        assert not (workspace / "a").exists()

    async def test_files_are_found_by_name_and_by_content(
        self, runtime: Verbs, workspace: Path
    ) -> None:
        await runtime.write("src/main.py", "import os\nprint(os.name)\n")
        await runtime.write("src/readme.md", "nothing here\n")
        found = await runtime.glob("**/*.py")
        assert list(found.paths) == [str(workspace / "src/main.py")]
        matches = (await runtime.grep(r"os\.\w+", include="*.py")).matches
        assert [(match.path, match.line, match.text) for match in matches] == [
            (str(workspace / "src/main.py"), 2, "print(os.name)")
        ]

    async def test_a_file_that_is_not_there_is_an_error_with_a_code(self, runtime: Verbs) -> None:
        action = FileRead("missing")
        seen = await runtime.act(action)
        assert isinstance(seen, Error)
        assert (seen.error_id, seen.cause) == ("path.not_found", action.id)
        with pytest.raises(NoSuchPath):
            await runtime.read("missing")

    async def test_many_writers_never_tear_a_file(self, runtime: Verbs, workspace: Path) -> None:
        texts = [str(n) * 10_000 + "\n" for n in range(8)]
        all_texts = texts * self.rounds_of_writing
        await asyncio.gather(*(runtime.write("shared", text) for text in all_texts))
        assert (workspace / "shared").read_text() in texts

    # In and out ---------------------------------------------------------------------------

    async def test_an_uploaded_file_is_downloaded_unchanged(
        self, runtime: Verbs, workspace: Path, tmp_path: Path
    ) -> None:
        data = os.urandom(3 << 20)
        (tmp_path / "data ü.bin").write_bytes(data)
        await runtime.upload(tmp_path / "data ü.bin", str(workspace / "new/place"))
        assert (workspace / "new/place/data ü.bin").read_bytes() == data

        out = tmp_path / "out"
        out.mkdir()
        written = await runtime.download(str(workspace / "new/place/data ü.bin"), out)
        assert written == out / "data ü.bin"
        assert written.read_bytes() == data

    async def test_a_download_is_saved_under_the_given_name(
        self, runtime: Verbs, workspace: Path, tmp_path: Path
    ) -> None:
        await runtime.write("note", "text")
        written = await runtime.download(str(workspace / "note"), tmp_path / "copy")
        assert written == tmp_path / "copy"
        assert written.read_text() == "text\n"

    async def test_uploading_a_zip_file_does_not_unpack_it(
        self, runtime: Verbs, workspace: Path, tmp_path: Path
    ) -> None:
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w") as archive:
            archive.writestr("inside", "text")
        (tmp_path / "some.zip").write_bytes(held.getvalue())
        await runtime.upload(tmp_path / "some.zip", str(workspace))
        assert (workspace / "some.zip").read_bytes() == held.getvalue()

    async def test_a_directory_tree_is_uploaded_and_downloaded(
        self, runtime: Verbs, workspace: Path, tmp_path: Path
    ) -> None:
        source = tmp_path / "tree"
        (source / "empty").mkdir(parents=True)
        (source / "sub").mkdir()
        (source / "sub/run.sh").write_text("#!/bin/sh\necho ran\n")
        (source / "sub/run.sh").chmod(0o755)
        (source / ".hidden").write_text("h")
        await runtime.upload(source, str(workspace / "in"))
        assert (workspace / "in/tree/empty").is_dir()
        assert (workspace / "in/tree/.hidden").read_text() == "h"
        assert (await runtime.run("in/tree/sub/run.sh")).content == "ran\n"

        written = await runtime.download(str(workspace / "in/tree"), tmp_path)
        assert written == tmp_path / "tree.zip"
        with zipfile.ZipFile(written) as archive:
            assert archive.testzip() is None
            assert sorted(archive.namelist()) == [".hidden", "empty/", "sub/", "sub/run.sh"]

    async def test_downloading_a_missing_path_fails(
        self, runtime: Verbs, workspace: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(NoSuchPath):
            await runtime.download(str(workspace / "missing"), tmp_path / "copy")
        assert not (tmp_path / "copy").exists()

    async def test_uploading_a_missing_path_fails(
        self, runtime: Verbs, workspace: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(NoSuchPath):
            await runtime.upload(tmp_path / "missing", str(workspace))

    # Logs ---------------------------------------------------------------------------------

    async def test_a_log_is_searched(self, runtime: Verbs) -> None:
        await runtime.run("seq 1 5000; echo 'a needle here'")
        (match,) = await runtime.search_log("needle")
        assert match.text == "a needle here"
        assert (await runtime.read_log(start=match.offset, end=match.offset + 8)) == b"a needle"
        assert len(await runtime.search_log("7", limit=3)) == 3
        assert not await runtime.search_log("needle", start=match.offset + 3)
        with pytest.raises(InvalidPattern):
            await runtime.search_log("(")

    async def test_reading_a_dropped_log_range_reports_what_is_left(
        self, make: Make, workspace: Path
    ) -> None:
        async with make(settings(workspace, log_limit=64 << 10)) as runtime:
            await runtime.run("seq 1 100000")
            with pytest.raises(LogRangeGone) as gone:
                await runtime.read_log(start=0)
            held = gone.value.detail
            newest = await runtime.read_log(start=held["start"], end=held["end"])
            assert newest.endswith(b"99999\n100000\n")

    async def test_an_unknown_shell_has_no_log(self, runtime: Verbs) -> None:
        with pytest.raises(NoSuchShell):
            await runtime.read_log("nobody")

    # The end ------------------------------------------------------------------------------

    async def test_closing_ends_every_process(self, make: Make, workspace: Path) -> None:
        os.mkfifo(workspace / "pids")
        async with make(settings(workspace)) as runtime:
            reading = asyncio.create_task(asyncio.to_thread((workspace / "pids").read_text))
            await runtime.run("sleep 60 & setsid sleep 60 & echo $! $$ > pids; disown -a")
            pids = [int(word) for word in (await reading).split()]
            await self.close_the_place(runtime)
        for pid in pids:
            await gone(pid)

    async def close_the_place(self, runtime: Verbs) -> None:
        """Close the runtime and, where that is another thing, the sandbox behind it."""
        await runtime.aclose()

    async def test_a_closed_runtime_rejects_actions(self, make: Make, workspace: Path) -> None:
        runtime = make(settings(workspace))
        async with runtime:
            await runtime.run("true")
        with pytest.raises(BasculeError):
            await runtime.run("true")
        await runtime.aclose()
