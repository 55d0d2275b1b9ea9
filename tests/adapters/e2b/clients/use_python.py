"""Uses sandboxes through E2B's own client for Python. The arguments are functions to call."""

from __future__ import annotations

import base64
import hashlib
import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from e2b import (
    CommandExitException,
    FileNotFoundException,
    FilesystemEventType,
    InvalidArgumentException,
    NotFoundException,
    SandboxException,
    SandboxQuery,
    SandboxState,
    Template,
    TimeoutException,
)
from e2b_code_interpreter import Sandbox

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@contextmanager
def raises(kind: type[Exception]) -> Iterator[list[Any]]:
    caught: list[Any] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
    assert caught, f"no {kind.__name__}"


def until(check: Callable[[], bool]) -> None:
    """Wait for something that no event reports. The test has a time limit."""
    while not check():
        time.sleep(0.05)


def commands(box: Sandbox) -> None:
    done = box.commands.run("echo out; echo err >&2; echo $WHICH $HERE", envs={"HERE": "b"})
    assert (done.stdout, done.stderr, done.exit_code) == ("out\na b\n", "err\n", 0), done
    with raises(CommandExitException) as caught:
        box.commands.run("echo partly; exit 3")
    assert (caught[0].exit_code, caught[0].stdout) == (3, "partly\n")
    seen: list[str] = []
    box.commands.run("printf 1; printf 2 >&2", on_stdout=seen.append, on_stderr=seen.append)
    assert sorted(seen) == ["1", "2"]
    with raises(InvalidArgumentException) as caught:
        box.commands.run("true", cwd="/nowhere")
    assert "/nowhere" in str(caught[0])
    box.files.make_dir("deep")
    assert box.commands.run("basename $PWD", cwd="deep").stdout == "deep\n"
    late = "trap 'touch was-ended; exit' TERM; echo begun; while :; do sleep 0.05; done"
    with raises(TimeoutException):
        box.commands.run(late, timeout=2)
    until(lambda: box.files.exists("was-ended"))


def background(box: Sandbox) -> None:
    cat = box.commands.run("cat; echo over; exit 4", background=True, stdin=True, timeout=0)
    found = {each.pid: each for each in box.commands.list()}
    assert found[cat.pid].args == ["-l", "-c", "cat; echo over; exit 4"], found
    box.commands.send_stdin(cat.pid, "one\n")
    for out, _, _ in cat:
        assert out == "one\n"
        break
    cat.disconnect()
    again = box.commands.connect(cat.pid)
    box.commands.stream_input(cat.pid, iter([b"two\n", "three\n"]))
    box.commands.close_stdin(cat.pid)
    with raises(CommandExitException) as caught:
        again.wait()
    assert (caught[0].exit_code, caught[0].stdout) == (4, "two\nthree\nover\n"), caught[0]

    sleeper = box.commands.run("sleep 600", background=True)
    assert box.commands.kill(sleeper.pid)
    with raises(CommandExitException) as caught:
        sleeper.wait()
    assert caught[0].exit_code != 0
    assert not box.commands.kill(sleeper.pid)
    with raises(NotFoundException):
        box.commands.send_stdin(sleeper.pid, "x")
    # A command that reads stdin ends at once if none was asked for.
    assert box.commands.run("cat").stdout == ""


def files(box: Sandbox) -> None:
    written = box.files.write("a/ä b.txt", "text\n")
    assert written.name == "ä b.txt"
    assert box.files.read(written.path) == "text\n"
    assert box.files.read("/home/user/a/ä b.txt") == "text\n"
    binary = bytes(range(256)) * 8
    many = [{"path": "a/1", "data": binary}, {"path": "a/2", "data": io.BytesIO(b"2")}]
    assert [each.name for each in box.files.write_files(many)] == ["1", "2"]
    assert box.files.write("a/3", "zipped " * 9999, gzip=True).name == "3"
    assert bytes(box.files.read("a/1", format="bytes")) == binary
    assert box.files.read("a/3") == "zipped " * 9999
    info = box.files.get_info("a/1")
    assert (info.type.value, info.size, info.permissions) == ("file", 2048, "-rw-r--r--"), info
    box.commands.run("ln -s 1 a/link && chmod 600 a/2 && mkdir -p a/sub/deeper")
    assert box.files.get_info("a/link").symlink_target == "1"
    names = [each.path.rpartition("/a/")[2] for each in box.files.list("a", depth=2)]
    assert names == ["1", "2", "3", "link", "sub", "sub/deeper", "ä b.txt"], names
    assert not box.files.make_dir("a/sub")
    assert box.files.make_dir("b/c")
    moved = box.files.rename("a/2", "b/c/two")
    assert (moved.name, moved.mode) == ("two", 0o600), moved
    assert not box.files.exists("a/2")
    box.files.remove("b")
    assert not box.files.exists("b/c/two")
    for call in (box.files.read, box.files.get_info, box.files.list, box.files.remove):
        with raises(FileNotFoundException):
            call("b")
    with raises(InvalidArgumentException):
        box.files.list("a/1")


def large_file(box: Sandbox) -> None:
    piece, count = bytes(range(256)) * 4096, 64
    digest = hashlib.sha256(piece * count).hexdigest()
    box.files.write("large", (piece for _ in range(count)))
    assert box.commands.run("sha256sum < large").stdout.split()[0] == digest
    read = hashlib.sha256()
    for chunk in box.files.read("large", format="stream"):
        read.update(chunk)
    assert read.hexdigest() == digest


def watch(box: Sandbox) -> None:
    box.files.make_dir("watched")
    handle = box.files.watch_dir("watched", recursive=True)
    box.commands.run("cd watched; mkdir in; echo 1 > in/x; mv in/x y; chmod 700 y; rm y")
    seen: list[tuple[str, FilesystemEventType]] = []

    def has_all() -> bool:
        seen.extend((each.name, each.type) for each in handle.get_new_events())
        return ("y", FilesystemEventType.REMOVE) in seen

    until(has_all)
    for kind in (FilesystemEventType.CREATE, FilesystemEventType.CHMOD):
        assert ("y", kind) in seen, seen
    assert ("in", FilesystemEventType.CREATE) in seen, seen
    assert any(name == "in/x" for name, _ in seen), seen
    handle.stop()
    with raises(SandboxException):
        handle.get_new_events()
    with raises(FileNotFoundException):
        box.files.watch_dir("nowhere")


def terminal(box: Sandbox) -> None:
    from e2b.sandbox.commands.command_handle import PtySize

    pty = box.pty.create(PtySize(rows=30, cols=99), timeout=0)
    box.pty.send_stdin(pty.pid, b"stty size; tty -s && echo is-a-'tty'\n")
    printed = b""
    for _, _, data in pty:
        printed += data or b""
        if b"is-a-tty\r\n" in printed:
            break
    assert b"30 99\r\n" in printed, printed
    pty.disconnect()
    again = box.pty.connect(pty.pid)
    box.pty.resize(pty.pid, PtySize(rows=40, cols=111))
    box.pty.send_stdin(pty.pid, b"stty size; exit 5\n")
    printed = b""

    def collect(data: bytes) -> None:
        nonlocal printed
        printed += data

    with raises(CommandExitException) as caught:
        again.wait(on_pty=collect)
    assert caught[0].exit_code == 5
    assert b"40 111\r\n" in printed, printed


def code(box: Sandbox) -> None:
    said: list[str] = []
    done = box.run_code(
        "import sys\nx = 6\nprint('out'); print('err', file=sys.stderr)\nx * 7",
        on_stdout=lambda each: said.append(each.line),
    )
    assert done.text == "42", done
    assert "".join(done.logs.stdout) == "".join(said) == "out\n"
    assert "".join(done.logs.stderr) == "err\n"
    assert done.execution_count == 1
    shown = box.run_code(
        "import base64\nfrom IPython.display import *\n"
        f"display(Image(base64.b64decode('{PNG}')))\n"
        "display(HTML('<b>x</b>'), JSON({'a': 1}), Markdown('*m*'), Latex('$l$'))\n"
        "display({'text/plain': 'p', 'application/x-own': 'o'}, raw=True)\nx"
    )
    assert base64.b64decode(shown.results[0].png) == base64.b64decode(PNG)
    assert shown.results[1].html == "<b>x</b>"
    assert shown.results[2].json == {"a": 1}
    assert (shown.results[3].markdown, shown.results[4].latex) == ("*m*", "$l$")
    assert shown.results[5].extra == {"application/x-own": "o"}
    assert (shown.text, shown.results[6].is_main_result) == ("6", True)
    failed = box.run_code("print('before')\n1 / 0")
    assert failed.error is not None
    assert (failed.error.name, failed.error.value) == ("ZeroDivisionError", "division by zero")
    assert "Traceback" in failed.error.traceback
    own = box.create_code_context(cwd="/tmp")
    assert "NameError" in str(box.run_code("x", context=own).error)
    assert box.run_code("import os; os.getcwd()", context=own).text == "'/tmp'"
    box.run_code("y = 1", context=own)
    assert own.id in {each.id for each in box.list_code_contexts()}
    box.restart_code_context(own)
    assert "NameError" in str(box.run_code("y", context=own).error)
    box.remove_code_context(own)
    with raises(NotFoundException):
        box.run_code("1", context=own)
    assert box.run_code("import os; os.environ['HERE']", envs={"HERE": "b"}).text == "'b'"
    assert "".join(box.run_code("echo $0", language="bash").logs.stdout) == "bash\n"
    with raises(SandboxException) as caught:
        box.run_code("1", language="r")
    assert "not supported" in str(caught[0])
    with raises(TimeoutException):
        box.run_code("open('began', 'w')\nwhile True: pass", timeout=5)
    assert box.run_code("x").text == "6"


def lifecycle(box: Sandbox) -> None:
    """Creates its own sandboxes."""
    del box
    one = Sandbox.create(metadata={"kind": "lifecycle", "n": "1"}, timeout=600)
    other = Sandbox.create(
        metadata={"kind": "lifecycle", "n": "2"}, timeout=600, lifecycle={"on_timeout": "pause"}
    )
    listed = Sandbox.list(SandboxQuery(metadata={"kind": "lifecycle"}), limit=1)
    first, second = listed.next_items()[0], listed.next_items()[0]
    assert not listed.has_next
    assert {first.sandbox_id, second.sandbox_id} == {one.sandbox_id, other.sandbox_id}
    assert first.metadata["n"] == "2"
    assert Sandbox.list(SandboxQuery(metadata={"kind": "x"})).next_items() == []

    count = one.commands.run("while sleep 0.05; do :; done", background=True, timeout=0)
    one.files.write("kept", "kept")
    one.pause()
    assert one.get_info().state == SandboxState.PAUSED
    assert not one.is_running()
    with raises(Exception) as caught:
        one.commands.run("true")
    assert "was not found" in str(caught[0]), caught[0]
    paused = SandboxQuery(metadata={"kind": "lifecycle"}, state=[SandboxState.PAUSED])
    assert [each.sandbox_id for each in Sandbox.list(paused).next_items()] == [one.sandbox_id]
    again = Sandbox.connect(one.sandbox_id, timeout=300)
    assert again.files.read("kept") == "kept"
    assert count.pid in {each.pid for each in again.commands.list()}
    left = (again.get_info().end_at.timestamp() - time.time()) / 60
    assert 3 < left <= 5, left
    again.set_timeout(1200)
    assert again.get_info().end_at.timestamp() - time.time() > 900
    assert again.get_metrics()[0].mem_used > 0

    other.set_timeout(0)
    until(lambda: not other.is_running())
    assert other.get_info().state == SandboxState.PAUSED
    assert other.connect(timeout=600).commands.run("echo back").stdout == "back\n"
    one.set_timeout(0)
    until(lambda: not one.is_running())
    with raises(NotFoundException):
        one.get_info()
    assert not one.kill()
    assert other.kill()
    assert not other.is_running()
    with raises(NotFoundException):
        Sandbox.connect(other.sandbox_id)


def settings(box: Sandbox) -> None:
    assert box.get_host(8000) == f"8000-{box.sandbox_id}.{box.sandbox_domain}"
    assert box.get_info().allow_internet_access is False
    box.update_network({"deny_out": ["0.0.0.0/0"]})
    with raises(SandboxException) as caught:
        box.update_network({"allow_out": ["example.org"]})
    assert "when you create it" in str(caught[0])
    with raises(SandboxException) as caught:
        Sandbox.create(network={"allow_out": ["0.0.0.0/0"]})
    assert "max_egress" in str(caught[0])
    with raises(SandboxException) as caught:
        Sandbox.create("no-such-template")
    assert "this hub has: base" in str(caught[0])
    assert Template.exists("base")
    assert not Template.exists("no-such-template")
    with raises(Exception) as caught:
        Template.build(Template().from_base_image(), "mine")
    assert "builds no templates" in str(caught[0]), caught[0]
    with raises(SandboxException) as caught:
        box.create_snapshot()
    assert "no snapshots" in str(caught[0])
    with raises(Exception) as caught:
        box.commands.run("true", user="nobody-here")
    assert "nobody-here" in str(caught[0]), caught[0]


def main() -> None:
    box = Sandbox.create(envs={"WHICH": "a"}, timeout=900)
    for name in sys.argv[1:]:
        globals()[name](box)
        sys.stdout.write(f"passed {name}\n")
    assert box.kill()


main()
