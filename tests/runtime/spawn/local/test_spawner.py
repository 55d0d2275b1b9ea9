"""The spawner of kind `local` keeps every promise of spawners, as root and without any rights."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bascule.core.contracts import Spawner
from bascule.core.sessions import SandboxPlan, new_session_id
from bascule.runtime.spawn.local import LocalSpawner
from tests.contracts.spawner import MakeSpawner, SpawnerSuite, client

from .wardens import SOMEBODY, settings_in, warden_of

FORKED, IMPORTED, COMPILED = "forked", "imported ", "compiled "
"""Lines that `_LOG_IMPORTS` writes."""
_LOG_IMPORTS = f"""
import os, sys

first = os.getpid()

def log(event, arguments):
    if os.getpid() != first and event == "import":
        os.write(2, f"{IMPORTED}{{arguments[0]}}\\n".encode())
    if os.getpid() != first and event == "compile":
        os.write(2, f"{COMPILED}{{arguments}}\\n".encode())

sys.addaudithook(log)
os.register_at_fork(after_in_child=lambda: os.write(2, b"{FORKED}\\n"))
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes things for other users")


@pytest.fixture
def imports_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have forked processes of Python write each module that they import, and each program that
    they compile, to their stderr. For a session's server this is its log."""
    (tmp_path / "sitecustomize.py").write_text(_LOG_IMPORTS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)


class TestLocal(SpawnerSuite):
    @pytest.fixture
    def make(self, place: Path) -> MakeSpawner:
        return lambda: LocalSpawner(settings_in(place))

    async def test_the_log_of_a_sandbox_server_counts_as_disk_use(
        self, spawner: Spawner, plan: SandboxPlan, place: Path
    ) -> None:
        """A session can write there: the descriptor is in reach of its user."""
        await spawner.start(plan)
        before = await spawner.disk(plan.directory)
        with (place / "warden" / "logs" / plan.session_id).open("ab") as log:
            log.write(b"x" * (4 << 20))
            log.flush()
            os.fsync(log.fileno())
        assert await spawner.disk(plan.directory) >= before + (4 << 20)

    async def test_the_sandbox_server_imports_and_compiles_nothing_after_the_fork(
        self, imports_logged: None, spawner: Spawner, plan: SandboxPlan, place: Path
    ) -> None:
        """The zygote has loaded everything. An import would cost each session time and memory."""
        await spawner.start(plan)
        async with client(plan) as runtime:
            await runtime.connect()
            await runtime.run("echo a > made")
            await runtime.write("made", "b\n")
            assert (await runtime.read("made")).content == "b\n"
        log = (place / "warden" / "logs" / plan.session_id).read_text().splitlines()
        assert FORKED in log, "imports are logged"
        assert [line for line in log if line.startswith((IMPORTED, COMPILED))] == []

    async def test_the_sandbox_server_does_not_preload_modules_of_rare_actions(
        self, imports_logged: None, spawner: Spawner, plan: SandboxPlan, place: Path
    ) -> None:
        await spawner.start(plan)
        async with client(plan) as runtime:
            await runtime.list_dir()
            await runtime.make_dir("made")
            assert len((await runtime.checkpoints()).items) == 1
        log = (place / "warden" / "logs" / plan.session_id).read_text().splitlines()
        assert FORKED in log, "imports are logged"
        assert [line for line in log if line.startswith(IMPORTED)] == []

    async def test_the_sandbox_server_opens_the_checkpoint_store_at_the_first_change(
        self, spawner: Spawner, plan: SandboxPlan
    ) -> None:
        """Opening it would cost each session time and memory."""
        await spawner.start(plan)
        store = plan.directory / "state" / "checkpoints"
        async with client(plan) as runtime:
            await runtime.connect()
            await runtime.list_dir()
            await runtime.run("echo here")
            assert not store.exists()

            await runtime.run("echo a > made")

            assert store.exists()
            assert [each["files"] for each in (await runtime.checkpoints()).items] == [1]

    @needs_root
    async def test_a_host_folder_can_be_the_workspace(
        self, spawner: Spawner, plan: SandboxPlan, place: Path
    ) -> None:
        folder = place / "project"
        folder.mkdir()
        (folder / "code.py").write_text("print(1)\n")
        os.chown(folder, 12345, 12345)
        started = await spawner.start(replace(plan, folder=folder))
        assert started.uid not in (0, 12345)
        async with client(plan) as runtime:
            assert (await runtime.run("cat code.py; touch mine")).content == "print(1)\n"
        assert (folder / "mine").stat().st_uid == 12345


@needs_root
class TestLocalWithoutRights(SpawnerSuite):
    """The warden is a user like any other: user namespaces, no cgroups, weak limits."""

    @pytest.fixture
    async def make(self, place: Path) -> AsyncIterator[MakeSpawner]:
        os.chown(place, SOMEBODY, SOMEBODY)
        settings = settings_in(place)
        async with warden_of(SOMEBODY, settings, place / "warden.sock") as path:
            yield lambda: LocalSpawner(settings, warden=path)

    @pytest.fixture
    def new_plan(self, place: Path) -> Callable[[], SandboxPlan]:
        """The hub is that user too."""

        def new_plan() -> SandboxPlan:
            session_id = new_session_id()
            made = [place / "sessions", place / "run"]
            made += [each / session_id for each in made]
            made += [made[2] / name for name in ("workspace", "home", "state")]
            for each in made:
                each.mkdir(exist_ok=True)
                os.chown(each, SOMEBODY, SOMEBODY)
            return SandboxPlan(
                session_id=session_id, directory=made[2], run_dir=made[3], key=f"key-{session_id}"
            )

        return new_plan
