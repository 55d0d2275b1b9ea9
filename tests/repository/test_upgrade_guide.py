"""The guide to upgrading knows every place, and its commands keep and remove what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import bascule, environment, hub

PAGE = (Path(__file__).parents[2] / "docs/guides/upgrade-and-uninstall.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
CELLS = """
import asyncio
from bascule.runtime import LocalRuntime

async def main():
    async with LocalRuntime(".") as sandbox:
        print((await sandbox.run_ipython("6 * 7")).content)

asyncio.run(main())
"""

pytestmark = pytest.mark.slow


class User:
    """Somebody on a machine where nothing of ours is yet."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.temporary = directory / "tmp"
        for each in (self.home, self.temporary):
            each.mkdir()
        given = environment(
            HOME=str(self.home),
            TMPDIR=str(self.temporary),
            BASCULE_SPAWNERS="plain",
            PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        )
        self.env = {name: value for name, value in given.items() if not name.startswith("XDG_")}

    def paste(self, block: str) -> None:
        """Into bash; `/tmp` is the user's own."""
        text = block.replace("/tmp/", f"{self.temporary}/")
        command = ["bash", "-euo", "pipefail", "-c", text]
        subprocess.run(command, cwd=self.home, env=self.env, check=True, timeout=100)

    def asks(self, *arguments: str, input: str | None = None) -> str:
        ran = bascule(*arguments, cwd=self.home, env=self.env, input=input)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def places(self) -> set[str]:
        """Directories and files of the home, as far down as the guide names them."""
        found = {path.relative_to(self.home) for path in self.home.rglob("*")}
        return {
            str(path) for path in found if len(path.parts) == (3 if ".local" in str(path) else 2)
        }


@pytest.fixture
def user() -> Iterator[User]:
    with tempfile.TemporaryDirectory(prefix="bsc-") as short:
        yield User(Path(short))


def test_the_uninstall_guide_removes_every_remaining_file(user: User) -> None:
    keep, _, restore, end_sessions, remove, *_ = BLOCKS
    cells = subprocess.run(
        [sys.executable, "-c", CELLS],
        cwd=user.home,
        env=user.env,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert cells.stdout.strip() == "42"
    user.asks("exec", "echo hello")
    user.asks(
        "up", "--no-editor", "--shells", "tmux", "--working-dir", "files", input="touch mine\n"
    )
    user.asks("doctor", "--json")
    with hub(user.env, "--allow-unisolated", cwd=user.home):
        user.asks("session", "create", "--name", "kept")
        user.asks("session", "exec", "kept", "echo precious >file")
        token = user.asks("token", "--create", "my agent").strip()

        assert user.places() == {".local/state/bascule", "files/mine"}

        user.paste(keep)
        user.paste(end_sessions)
        assert user.asks("session", "list").startswith("There are no sessions")
    user.paste(restore)
    _goes_on_with(user, token)
    shutil.rmtree(user.home / ".local/state/bascule.old")

    user.paste(remove.partition("pip uninstall")[0])
    left = {path.name for path in user.home.rglob("*") if path.is_file()}
    assert left == {"mine", "bascule-backup.tar"}
    assert list(user.temporary.iterdir()) == []


def _goes_on_with(user: User, token: str) -> None:
    """A hub that was given the copy knows the token, and has the session's files."""
    with hub(user.env, "--allow-unisolated", cwd=user.home):
        given = bascule("session", "list", env={**user.env, "BASCULE_TOKEN": token})
        assert " kept " in given.stdout
        user.asks("session", "resume", "kept")
        assert user.asks("session", "exec", "kept", "cat file") == "precious\n"
        user.asks("session", "rm", "--all")


def test_every_entry_of_the_state_directory_is_documented(user: User) -> None:
    with hub(user.env, "--allow-unisolated", cwd=user.home):
        user.asks("session", "create", "--name", "one")
        user.asks("session", "exec", "one", "true")
        state = user.home / ".local/state/bascule"
        there = {path.name for path in state.iterdir()}
        user.asks("session", "rm", "--all")
    told = set(
        re.findall(r"`([\w.-]+)/?`", PAGE.partition("The state directory of a hub contains:")[2])
    )

    assert there - {"hub.sqlite-wal", "hub.sqlite-shm"} <= told
