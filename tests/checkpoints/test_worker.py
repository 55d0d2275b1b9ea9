"""The worker process serves a store to a window by JSON lines."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bascule.checkpoints import CheckpointStore, _worker_main
from tests.checkpoints.trees import picture

MAIN = Path(_worker_main.__file__)
Answer = Callable[[dict[str, Any]], dict[str, Any]]


class Window:
    """The other end of a worker: a window with files open."""

    def __init__(self, store: Path, workspace: Path, command: Sequence[str] = ()) -> None:
        self.unsaved: list[Path] = []
        self.saved: list[Path] = []
        self.on_write: Callable[[Path, bytes], dict[str, Any]] = _write
        self.notices: list[str] = []
        self.process = subprocess.Popen(
            [*(command or (sys.executable, "-I", str(MAIN))), store, workspace, str(1 << 30)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.first = self._receive()
        self._number = 0

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, op: str, **more: Any) -> Any:
        answer = self.answer(op, **more)
        assert "error" not in answer, answer
        return answer["result"]

    def answer(self, op: str, **more: Any) -> dict[str, Any]:
        self._number += 1
        self.send({"id": self._number, "op": op, **more})
        while True:
            message = self._receive()
            if message.get("id") == self._number:
                return message
            if message["op"] == "notice":
                self.notices.append(message["text"])
            else:
                self._answer(message)

    def run(self, command: str, workspace: Path) -> int:
        number = self.ask("begin", agent="ann", title=command)
        subprocess.run(["bash", "-c", command], cwd=workspace, check=True)
        assert self.ask("end", checkpoint=number) == number
        assert isinstance(number, int)
        return number

    def restore(self, number: int, **more: Any) -> dict[str, Any]:
        found = self.ask("restore", args={"checkpoint": number, **more})
        assert isinstance(found["extras"], dict)
        return found["extras"]

    def close(self) -> int:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait()

    def _answer(self, message: dict[str, Any]) -> None:
        if message["op"] == "open_files":
            unsaved, saved = map(str, self.unsaved), map(str, self.saved)
            result: dict[str, Any] = {"unsaved": list(unsaved), "saved": list(saved)}
        else:
            content = base64.b64decode(message["content"])
            result = self.on_write(Path(message["path"]), content)
        self.send({"answer": message["ask"], **result})

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the worker has ended"
        message = json.loads(line)
        assert isinstance(message, dict)
        return message


def _write(path: Path, content: bytes) -> dict[str, Any]:
    path.write_bytes(content)
    return {"written": True}


@pytest.fixture
def window(tmp_path: Path, workspace: Path) -> Iterator[Window]:
    opened = Window(tmp_path / "store", workspace)
    yield opened
    opened.close()


def test_a_command_is_recorded_and_restored(window: Window, workspace: Path) -> None:
    (workspace / "a").write_text("one\n")
    before = picture(workspace)
    number = window.run("rm a; mkdir b; touch b/c", workspace)
    (listed,) = window.ask("checkpoints", args={})["extras"]["items"]
    assert (listed["id"], listed["agent"], listed["files"]) == (number, "ann", 3)
    shown = window.ask("checkpoint", args={"checkpoint": number, "paths": ["a"]})
    assert shown["extras"]["changes"] == [{"path": "a", "change": "deleted"}]
    assert "-one" in shown["content"]

    found = window.restore(number)

    assert picture(workspace) == before
    assert (found["restored"], found["removed"]) == (["a"], ["b", "b/c"])
    assert window.restore(found["checkpoint"])["restored"] == ["b", "b/c"]


def test_an_edit_names_its_path(window: Window, workspace: Path, tmp_path: Path) -> None:
    (workspace / "a").write_text("one\n")
    (workspace / "link").symlink_to("a")
    path = str(workspace / "link")
    number = window.ask("begin", agent="ann", title="edit", path=path, follows_links=True)
    (workspace / "a").write_text("two\n")
    assert window.ask("end", checkpoint=number) == number
    assert window.restore(number)["restored"] == ["a"]
    outside = str(tmp_path / "elsewhere")
    assert window.ask("begin", agent="ann", title="x", path=outside, follows_links=True) is None


def test_an_open_file_is_written_by_the_window(window: Window, workspace: Path) -> None:
    file = workspace / "a"
    file.write_text("one\n")
    file.chmod(0o750)
    before = picture(workspace)
    inode = file.stat().st_ino
    number = window.run("echo two > a; chmod 700 a", workspace)
    window.saved = [file]
    assert window.restore(number)["restored"] == ["a"]
    assert picture(workspace) == before  # with mode and time
    assert file.stat().st_ino == inode  # the window wrote into the file


def test_an_open_file_that_the_window_cannot_write_exactly_is_written_to_disk(
    window: Window, workspace: Path
) -> None:
    (workspace / "a").write_bytes(b"\xff\n")
    number = window.run("echo two > a", workspace)
    window.saved, window.on_write = [workspace / "a"], lambda *_: {"written": False}
    assert window.restore(number)["restored"] == ["a"]
    assert (workspace / "a").read_bytes() == b"\xff\n"


def test_a_hard_link_is_not_written_by_the_window(
    window: Window, workspace: Path, tmp_path: Path
) -> None:
    (workspace / "a").write_text("one\n")
    number = window.run("echo two > a", workspace)
    (tmp_path / "elsewhere").hardlink_to(workspace / "a")
    window.saved = [workspace / "a"]
    assert window.restore(number)["restored"] == ["a"]
    assert (tmp_path / "elsewhere").read_text() == "two\n"


def test_unsaved_changes_are_a_conflict_also_in_a_dry_run(window: Window, workspace: Path) -> None:
    for name in ("a", "b"):
        (workspace / name).write_text("one\n")
    number = window.run("echo two > a; echo two > b", workspace)
    window.unsaved = window.saved = [workspace / "a"]
    reason = {"path": "a", "reason": "it has unsaved changes in the editor"}
    planned = window.restore(number, dry_run=True)
    assert (planned["restored"], planned["conflicts"]) == (["b"], [reason])
    found = window.restore(number)
    assert (found["restored"], found["conflicts"]) == (["b"], [reason])
    assert (workspace / "a").read_text() == "two\n"
    window.unsaved = []
    assert window.restore(number)["restored"] == ["a"]


def test_a_file_that_the_window_refuses_is_a_conflict(window: Window, workspace: Path) -> None:
    (workspace / "a").write_text("one\n")
    number = window.run("echo two > a", workspace)
    window.saved, window.on_write = [workspace / "a"], lambda *_: {"refused": "somebody types"}
    found = window.restore(number)
    assert found["conflicts"] == [{"path": "a", "reason": "somebody types"}]
    assert found["checkpoint"] is None
    assert (workspace / "a").read_text() == "two\n"


def test_a_file_that_a_formatter_changed_while_saving_is_named_and_can_be_undone(
    window: Window, workspace: Path
) -> None:
    (workspace / "a").write_text("one\n")
    number = window.run("echo two > a", workspace)
    window.saved = [workspace / "a"]
    window.on_write = lambda path, content: _write(path, content.upper())
    found = window.restore(number)
    assert [each["path"] for each in found["conflicts"]] == ["a"]
    assert (workspace / "a").read_text() == "ONE\n"
    window.on_write = _write
    assert window.restore(found["checkpoint"])["restored"] == ["a"]
    assert (workspace / "a").read_text() == "two\n"


def test_requests_that_arrive_during_a_restore_are_executed_after_it(
    window: Window, workspace: Path
) -> None:
    (workspace / "a").write_text("one\n")
    number = window.run("echo two > a", workspace)

    def write(path: Path, content: bytes) -> dict[str, Any]:
        window.send({"id": "later", "op": "checkpoints", "args": {}})
        return _write(path, content)

    window.saved, window.on_write = [workspace / "a"], write
    found = window.restore(number)
    later = window._receive()
    assert later["id"] == "later"
    ids = [each["id"] for each in later["result"]["extras"]["items"]]
    assert ids == [number, found["checkpoint"]]


def test_the_worker_keeps_files_the_user_saves_during_a_command(
    window: Window, workspace: Path
) -> None:
    for name in ("a", "b"):
        (workspace / name).write_text("one\n")
    number = window.ask("begin", agent="ann", title="a command")
    (workspace / "a").write_text("mine\n")
    window.ask("saved", paths=[str(workspace / "a"), "/elsewhere"])
    (workspace / "b").write_text("two\n")
    window.ask("end", checkpoint=number)
    assert window.restore(number)["restored"] == ["b"]
    assert (workspace / "a").read_text() == "mine\n"


def test_an_action_is_recorded_up_to_the_end_of_the_window(
    window: Window, workspace: Path, tmp_path: Path
) -> None:
    (workspace / "a").write_text("one\n")
    number = window.ask("begin", agent="ann", title="a command")
    (workspace / "a").write_text("two\n")
    assert window.close() == 0
    with CheckpointStore(tmp_path / "store", workspace) as store:
        (kept,) = store.checkpoints()
        assert (kept.id, kept.is_interrupted) == (number, False)
        assert store.restore(number, number).paths == ["a"]


def test_after_a_kill_another_worker_continues(
    window: Window, workspace: Path, tmp_path: Path
) -> None:
    (workspace / "a").write_text("one\n")
    number = window.ask("begin", agent="ann", title="a command")
    (workspace / "a").write_text("two\n")
    window.process.send_signal(signal.SIGKILL)
    window.close()
    other = Window(tmp_path / "store", workspace)
    try:
        found = other.restore(number)
        assert found["restored"] == []
        assert "name the path" in found["conflicts"][0]["reason"]
        assert other.restore(number, paths=["a"])["restored"] == ["a"]
    finally:
        other.close()


def test_two_windows_share_a_store(window: Window, workspace: Path, tmp_path: Path) -> None:
    other = Window(tmp_path / "store", workspace)
    try:
        first = window.run("touch a", workspace)
        second = other.run("touch b", workspace)
        for each in (window, other):
            listed = each.ask("checkpoints", args={})["extras"]["items"]
            assert [item["id"] for item in listed] == [first, second]
    finally:
        other.close()


def test_worker_errors_carry_their_error_code(window: Window) -> None:
    answer = window.answer("checkpoint", args={"checkpoint": 7})
    assert answer["error"]["code"] == "checkpoint.not_found"
    assert window.answer("nonsense", args={})["error"]["code"] == "internal"


def test_the_reason_for_missing_checkpoints_is_reported_once(tmp_path: Path) -> None:
    window = Window(tmp_path / "store", tmp_path)  # the store would be inside
    try:
        assert window.ask("begin", agent="ann", title="one") is None
        assert window.ask("begin", agent="ann", title="two") is None
        (told,) = window.notices
        assert "inside of the workspace" in told
        answer = window.answer("checkpoints", args={})
        assert answer["error"]["code"] == "checkpoint.unavailable"
    finally:
        window.close()


def test_a_python_that_is_too_old_is_reported(tmp_path: Path) -> None:
    """`sys.version_info` is changed before the worker's file runs."""
    program = (
        "import runpy, sys; sys.version_info = (3, 10, 1);"
        f"sys.argv = sys.argv[:]; runpy.run_path({str(MAIN)!r}, run_name='__main__')"
    )
    window = Window(tmp_path / "store", tmp_path, (sys.executable, "-I", "-c", program))
    window.close()
    assert window.first["op"] == "failed"
    assert "Python 3.10.1 is too old" in window.first["text"]
