"""`bascule up` of an ordinary user, where sessions can have a network and where they cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.spawn.local.wardens import SOMEBODY, as_user, packages, python_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
    pytest.mark.skipif(shutil.which("slirp4netns") is None, reason="needs slirp4netns"),
]


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bsc-"))
    os.chown(path, SOMEBODY, SOMEBODY)
    yield path
    shutil.rmtree(path)


def bascule(home: Path, *words: str, tun: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*as_user(SOMEBODY, tun=tun), python_for(SOMEBODY), "-m", "bascule", *words],
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": packages(),
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home / "run"),
            "BASCULE_PORT": "0",
        },
        cwd=home,
        input=typed,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def up(home: Path, *flags: str, tun: str) -> tuple[int, bool, str]:
    """Its status, whether the session has a way out, and what was said."""
    ran = bascule(home, "up", "--editor", *flags, tun=tun, typed="tail -n +2 /proc/net/route\n")
    return ran.returncode, "tap0" in ran.stdout, ran.stderr


def test_without_dev_net_tun_a_session_has_no_network_and_says_why(home: Path) -> None:
    status, has_network, said = up(home, tun="0600")
    assert (status, has_network) == (0, False), said
    assert "none  this user may not open /dev/net/tun (as root: chmod 0666 /dev/net/tun)" in said
    assert "Traceback" not in said
    status, _, said = up(home, "--egress", "open", tun="0600")
    assert status == 2
    assert "--egress open is not possible here: this user may not open /dev/net/tun" in said


def test_flags_apply_when_a_session_is_resumed(home: Path) -> None:
    assert up(home, tun="0666")[:2] == (0, True)
    assert up(home, "--egress", "off", tun="0666")[:2] == (0, False)
    assert up(home, tun="0666")[:2] == (0, False)  # as it was left
    assert up(home, "--egress", "open", tun="0666")[:2] == (0, True)
    status, has_network, said = up(home, tun="0600")  # the device was closed meanwhile
    assert (status, has_network) == (0, False), said
    assert "may not open /dev/net/tun" in said


@pytest.mark.parametrize(("tun", "state"), [("0600", "limited"), ("0666", "ok")])
def test_the_doctor_opens_dev_net_tun(home: Path, tun: str, state: str) -> None:
    ran = bascule(home, "doctor", "--json", tun=tun)
    assert f'"name": "slirp4netns",\n      "state": "{state}"' in ran.stdout
    assert ("may not open /dev/net/tun" in ran.stdout) == (tun == "0600")
