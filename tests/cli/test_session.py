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
from pathlib import Path

import pytest

from bascule.runtime.spawn.plain import PlainSpawner
from tests.cli.processes import BASCULE, bascule, environment

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
        done = machine.session("exec", "mine", "echo $A $SECRET_WORD; (exit 3)")
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


def test_what_makes_no_sense_is_said(machine: Machine) -> None:
    with machine.hub():
        machine.must("create", "--name", "same")
        machine.must("create", "--name", "same")
        for arguments, words in (
            (("show", "nobody"), "no session 'nobody'"),
            (("stop", "same"), "fits 2 sessions"),
            (("rm",), "--all"),
            (("rm", "same", "--all"), "--all"),
            (("create", "--env", "A"), "NAME=VALUE"),
            (("create", "--secret", "NOT_THERE"), "no such variable"),
            (("create", "--git", "https://x/y", "--folder", "/"), "one of"),
            (("create", "--folder", "/etc"), "workspace_roots"),
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
