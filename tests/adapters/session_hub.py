"""A hub with isolated sessions, as its own process: agents block the one they run in."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class SessionHub:
    url: str
    token: str
    state_dir: Path

    def run(self, *words: str) -> str:
        """What a command of `bascule` prints, asked of this hub."""
        env = {**os.environ, "BASCULE_HUB": self.url, "BASCULE_TOKEN": self.token}
        ran = subprocess.run(
            [sys.executable, "-m", "bascule", *words],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


@contextmanager
def session_hub(**settings: str) -> Iterator[SessionHub]:
    """Its sessions are of kind local, and gone afterwards. `settings` as variables name them."""
    if shutil.which("bwrap") is None:
        pytest.skip("sessions that are kept apart need bubblewrap")
    # Not below pytest's directory: sockets have short names.
    place = Path(tempfile.mkdtemp(prefix="bsc-"))
    place.chmod(0o711)
    token = secrets.token_urlsafe(24)
    given = {f"BASCULE_{name.upper()}": value for name, value in settings.items()}
    with (place / "log").open("wb") as log:
        hub = subprocess.Popen(
            [sys.executable, "-m", "bascule", "serve", "--port", "0", "--state-dir", place / "hub"],
            env={**os.environ, "BASCULE_TOKEN": token, "BASCULE_SPAWNERS": "local", **given},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert hub.stdout is not None
    try:
        url = hub.stdout.readline().strip()
        assert url, (place / "log").read_text()
        made = SessionHub(url, token, place / "hub")
        try:
            yield made
        finally:
            made.run("session", "rm", "--all")
    finally:
        hub.terminate()
        hub.wait()
        hub.stdout.close()
        shutil.rmtree(place)
