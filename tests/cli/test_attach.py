"""`bascule attach`: a person at the terminal of an agent's shell."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bascule.runtime import RemoteRuntime, SyncRuntime

from .processes import Server, at_terminal, bascule, environment, serving


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """One with tmux shells, whose sockets are nobody else's; stopped in good order."""
    runtime = Path(tempfile.mkdtemp(prefix="bsc-"))  # short: paths of sockets are
    (runtime / "work").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    with serving(runtime / "work", "--shells", "tmux") as server:
        yield server
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(10)
    assert list((runtime / "bascule").iterdir()) == []
    shutil.rmtree(runtime)


@pytest.fixture
def agent(sandbox: Server) -> Iterator[SyncRuntime]:
    with SyncRuntime(RemoteRuntime(sandbox.url, sandbox.key)) as runtime:
        yield runtime


@pytest.mark.slow
def test_an_attached_user_sees_the_agents_commands_and_can_type(
    agent: SyncRuntime, tmp_path: Path
) -> None:
    agent.run("echo before you came")
    with at_terminal("attach", cwd=tmp_path, env=environment(TERM="xterm")) as person:
        person.expect("before you came")
        person.expect("work$")
        person.type("name=typed; echo mine: $name\r")
        person.expect("mine: typed")
        person.expect("work$")
        assert agent.run("echo theirs: $name").content == "theirs: typed\n"
        person.expect("echo theirs: $name")  # the command, then what it prints
        person.expect("theirs: typed")
        person.expect("work$")
        # Not one that starts another program now: sh loses an interrupt that comes meanwhile.
        person.type("sh -c 'echo under\"\"way; read line'\r")
        person.expect("underway")
        person.type("\x03")
        person.expect("work$")
        person.type("\x02d")
        assert person.status() == 0
    assert agent.run("echo $?").content == "130\n"


@pytest.mark.slow
def test_attaching_a_person_does_not_change_the_agents_output(
    agent: SyncRuntime, tmp_path: Path
) -> None:
    agent.run("true")
    with at_terminal("attach", cwd=tmp_path, env=environment(TERM="xterm")) as person:
        person.expect("work$")
        for number in range(20):
            assert agent.run(f"printf {number}").content == f"{number}"
        assert "7771" not in agent.run("tr '\\0' ' ' < /proc/self/cmdline").content


@pytest.mark.slow
def test_a_failed_attach_gives_the_reason(
    agent: SyncRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unmade = bascule("attach")
    assert unmade.returncode == 2
    assert "a shell starts with its first command" in unmade.stderr
    agent.run("true")
    piped = bascule("attach")
    assert piped.returncode == 2
    assert "attach needs a terminal" in piped.stderr
    other = bascule("attach", "other")
    assert "no tmux shell 'other'; its tmux shells: main" in other.stderr
    elsewhere = bascule("attach", "--working-dir", str(tmp_path))
    assert f"no sandbox with tmux shells is running in {tmp_path}" in elsewhere.stderr
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    nowhere = bascule("attach")
    assert nowhere.returncode == 2
    assert "pty shells cannot be attached to" in nowhere.stderr


def test_a_kind_that_does_not_exist_is_named(tmp_path: Path) -> None:
    wrong = bascule("sandbox", "0", "--working-dir", str(tmp_path), "--shells", "screen")
    assert wrong.returncode == 2
    assert "'screen' is not a kind of shell; use one of: pty, tmux" in wrong.stderr
