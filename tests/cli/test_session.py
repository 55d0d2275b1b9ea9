"""`bascule session` with a hub in a process of its own, which is killed and started again."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bascule.cli.session_view import ago
from bascule.runtime.spawn.plain import PlainSpawner
from tests.cli.processes import BASCULE, at_terminal, bascule, environment

pytestmark = pytest.mark.slow


class Machine:
    """A place with a hub's state, for one user."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "bascule"
        self.env = environment(
            XDG_STATE_HOME=str(directory), SECRET_WORD="hush-hush", BASCULE_SPAWNERS="plain"
        )

    @contextmanager
    def hub(self) -> Iterator[subprocess.Popen[bytes]]:
        command = (*BASCULE, "serve", "--port", "0", "--allow-unisolated")
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=self.env, stdout=pipe, stderr=pipe) as process:
            assert process.stdout is not None
            try:
                assert process.stdout.readline().startswith(b"http://")
                yield process
            finally:
                process.kill()
                process.communicate()

    def session(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return bascule("session", *arguments, env=self.env)

    def must(self, *arguments: str) -> str:
        done = self.session(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def machine() -> Iterator[Machine]:
    directory = Path(tempfile.mkdtemp(prefix="bsc-"))
    yield Machine(directory)
    asyncio.run(end_all(directory / "bascule/run"))
    shutil.rmtree(directory)


async def end_all(run_dir: Path) -> None:
    spawner = PlainSpawner(run_dir, allow_unisolated=True)
    await spawner.open()
    for each in await spawner.running():
        await spawner.stop(each.session_id, grace=0)


def test_a_session_from_create_to_rm(machine: Machine) -> None:
    with machine.hub():
        made = machine.session(
            "create", "--name", "mine", "--env", "A=b", "--secret", "SECRET_WORD"
        )
        assert made.returncode == 0, made.stderr
        session = made.stdout.strip()
        assert "starting the sandbox" in made.stderr
        done = machine.session("exec", "mine", "--", "echo $A $SECRET_WORD; (exit 3)")
        assert (done.stdout, done.returncode) == ("b hush-hush\n", 3)
        assert session in machine.must("list")
        shown = json.loads(machine.must("show", session[:8], "--json"))
        assert (shown["state"], shown["secrets"]) == ("ready", ["SECRET_WORD"])
        assert machine.must("url", "mine") == shown["vscode_url"]
        assert machine.must("pause", "mine") == "paused"
        assert machine.must("resume", "mine") == "ready"
        typed = bascule("session", "attach", "mine", env=machine.env, input="echo typed\n")
        assert typed.stdout == "typed\n"
        assert machine.must("stop", "mine") == "stopped"
        assert machine.must("logs", "mine") == ""
        assert machine.must("rm", "--all") == session
        assert "no session" in machine.must("list")
        for name in ("sessions", "run", "run/.doors", "secrets"):
            assert set(os.listdir(machine.state / name)) <= {".doors"}


def test_invalid_session_commands_print_clear_errors(machine: Machine) -> None:
    with machine.hub():
        same = machine.must("create", "--name", "same")
        for arguments, words in (
            (("show", "nobody"), "no session 'nobody'"),
            (("create", "--name", "same"), f"a session with this name exists ({same}, ready)"),
            (("create", "--memory", "1"), "--memory 1: it should be greater than or equal to 64M"),
            (("create", "--cpus", "0"), "--cpus 0: it should be greater than or equal to 0.01"),
            (("create", "--processes", "1"), "--processes 1: it should be greater than"),
            (("create", "--shells", "zsh"), "--shells zsh: it should be 'pty' or 'tmux'"),
            (("create", "--runtime", "x"), "--runtime x: it should be 'sandbox' or 'vscode'"),
            (("create", "--env", "A B=1"), "'A B' is not a valid variable name"),
            (("create", "--egress", "x"), "--egress x: it should be "),
            (("create", "--name", "a" * 300), "--name aaa"),
            (("create", "--git", "ftp://x/y"), "over https or ssh, not from 'ftp://x'"),
            (("create", "--spawner", "moon"), "moon"),
            (("rm",), "--all"),
            (("rm", "same", "--all"), "--all"),
            (("create", "--env", "A"), "NAME=VALUE"),
            (("create", "--secret", "NOT_THERE"), "is not set here"),
            (("create", "--git", "https://x/y", "--folder", "/"), "one of"),
            (("create", "--folder", "/etc"), "workspace_roots"),
            (("create", "--ref", "main"), "--ref needs --git"),
            (("create", "--memory", "lots"), "4G, 512M or none"),
            (("create", "--cpus", "many"), "neither a number nor none"),
            (("create", "--egress", "off", "--domain", "a.example"), "--egress proxy"),
        ):
            done = machine.session(*arguments)
            assert (done.returncode, words in done.stderr) == (2, True), done.stderr
        machine.must("rm", "--all")


def test_sessions_outlive_a_hub_that_is_killed(machine: Machine) -> None:
    with machine.hub() as hub:
        session = machine.must("create")
        machine.must("exec", session, "word=kept")
        hub.send_signal(signal.SIGKILL)
        hub.wait()
    with machine.hub() as hub:
        assert machine.must("exec", session, "echo $word") == "kept"
        starting = machine.must("create", "--no-wait")
        hub.send_signal(signal.SIGKILL)
        hub.wait()
    with machine.hub():
        assert machine.must("resume", starting) == "ready"
        assert machine.must("exec", starting, "echo up") == "up"
        assert len(machine.must("rm", "--all").split()) == 2
    assert os.listdir(machine.state / "run") == [".doors"]


def test_a_user_sees_session_details_and_confirms_removing_all(machine: Machine) -> None:
    with machine.hub():
        flags = ("--memory", "1.5G", "--cpus", "none", "--egress", "open", "--name", "mine")
        env = {**machine.env, "TERM": "xterm", "COLUMNS": "140"}
        with at_terminal("session", "create", *flags, cwd=machine.directory, env=env) as terminal:
            assert terminal.status() == 0
        assert "starting the sandbox" in terminal.seen
        assert "VS Code: http://" in terminal.seen
        shown = machine.must("show", "mine")
        session = machine.must("list", "--json").partition('"id": "')[2][:25]
        assert "limits     1536 MiB of memory, 1024 processes\n" in shown
        assert "network    open\n" in shown
        assert "created    just now, by admin\n" in shown
        for answer, status in (("n", 1), ("y", 0)):
            with at_terminal("session", "rm", "--all", cwd=machine.directory, env=env) as terminal:
                terminal.expect("Remove 1 session, including files? [y/N] ")
                terminal.type(f"{answer}\r")
                assert terminal.status() == status
                assert (session in terminal.seen) == (answer == "y")
        assert "no session" in machine.must("list")


def test_ages_are_printed_in_words() -> None:
    now = datetime(2026, 1, 2, 12, tzinfo=UTC)
    for before, words in (
        (timedelta(seconds=59), "just now"),
        (timedelta(seconds=60), "1 minute ago"),
        (timedelta(hours=5, minutes=59), "5 hours ago"),
        (timedelta(days=2), "2 days ago"),
    ):
        assert ago((now - before).isoformat(), now) == words
