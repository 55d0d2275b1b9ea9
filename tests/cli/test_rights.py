"""A hub that is nobody in particular, whose sessions are users of their own all the same."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from bascule.cli.hub_account import HubAccount
from bascule.core.errors import AccessDenied, InvalidSetting
from tests.runtime.spawn.local.wardens import packages, python_for

from .processes import TIMEOUT

NOBODY = 65534
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="has root's rights to give up"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bsc-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


class Machine:
    """The commands of people on a machine whose settings are in `place`."""

    def __init__(self, place: Path, **settings: str) -> None:
        self.place = place
        self.state = place / "var/lib/state"
        values = {
            "state_dir": str(self.state),
            "warden_dir": str(place / "warden"),
            "user": "nobody",
            **settings,
        }
        file = place / "hub.toml"
        file.write_text("".join(f'{name} = "{value}"\n' for name, value in values.items()))
        self.env: Mapping[str, str] = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": packages(),
            "BASCULE_CONFIG": str(file),
            "BASCULE_PORT": "0",
        }

    def bascule(self, *words: str) -> str:
        done = subprocess.run(
            [python_for(NOBODY), "-m", "bascule", *words],
            env=self.env,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=3 * TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @contextmanager
    def serving(self, *words: str, uid: int) -> Iterator[subprocess.Popen[str]]:
        """A command that runs until it is told to stop."""
        with subprocess.Popen(
            [python_for(NOBODY), "-m", "bascule", *words],
            env=self.env,
            cwd="/",
            user=uid,
            group=uid,
            extra_groups=[],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                _, said = process.communicate(timeout=TIMEOUT)
                assert process.returncode == 0, said


def ensure_it_works(machine: Machine, hub: subprocess.Popen[str]) -> None:
    """From the outside: the hub has no rights, its session is somebody else, and nothing stays."""
    assert hub.stdout is not None
    assert hub.stdout.readline().startswith("http://")
    status = Path(f"/proc/{hub.pid}/status").read_text()
    assert f"Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}" in status
    assert "CapEff:\t0000000000000000" in status
    session = machine.bascule("session", "create")
    uid = machine.bascule("session", "exec", session, "id -u; echo mine >file")
    assert int(uid) >= 70_000
    file = machine.state / "sessions" / session / "workspace/file"
    assert file.stat().st_uid == int(uid)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert machine.bascule("session", "rm", "--all") == session
    assert os.listdir(machine.state / "sessions") == []
    assert set(os.listdir(machine.state / "run")) <= {".doors", "egress"}


def test_in_a_hub_started_by_root_only_the_warden_keeps_root(place: Path) -> None:
    machine = Machine(place)
    with machine.serving("serve", uid=0) as hub:
        ensure_it_works(machine, hub)
    assert (place / "var/lib/state/hub.sqlite").stat().st_uid == NOBODY


def test_an_unprivileged_hub_uses_the_warden_socket(place: Path) -> None:
    machine = Machine(place, warden=str(place / "root/warden.sock"))
    with machine.serving("warden", uid=0) as warden:
        assert warden.stderr is not None
        assert any("the warden listens for user nobody" in line for line in warden.stderr)
        with machine.serving("serve", uid=NOBODY) as hub:
            ensure_it_works(machine, hub)
    assert not (place / "root/warden.sock").exists()


@pytest.mark.parametrize("depth", [1, 2])
def test_root_creates_no_directory_behind_a_symlink_of_the_hub_user(
    place: Path, depth: int
) -> None:
    """Root makes the hub's directories, and would make them the hub's own in any place."""
    home, elsewhere = place / "home", place / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    os.chown(home, NOBODY, NOBODY)
    (home / "link").symlink_to(elsewhere)
    os.lchown(home / "link", NOBODY, NOBODY)
    account = HubAccount("nobody", NOBODY, NOBODY, home)
    with pytest.raises(AccessDenied, match=f"symlink {home / 'link'}"):
        account.create_directory(home / "link" / "/".join(["state"] * depth), 0o700)
    assert os.listdir(elsewhere) == []


def test_nested_directories_are_created_for_the_hub_user(place: Path) -> None:
    account = HubAccount("nobody", NOBODY, NOBODY, place)
    account.create_directory(place / "a" / "b" / "c", 0o700)
    made = [place / "a", place / "a" / "b", place / "a" / "b" / "c"]
    assert [each.stat().st_uid for each in made] == [NOBODY] * 3
    assert stat.S_IMODE(made[-1].stat().st_mode) == 0o700


def test_a_missing_hub_user_is_reported_with_the_command_to_create_it() -> None:
    with pytest.raises(InvalidSetting, match=r"no user 'bascule-nobody'.*useradd"):
        HubAccount.named("bascule-nobody")
