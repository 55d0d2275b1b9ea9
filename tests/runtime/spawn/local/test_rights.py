"""The hub needs no rights: a warden has them, and only for what the hub may ask."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bascule.core.sessions import new_session_id
from bascule.runtime.spawn.local import LocalSettings

from .wardens import SOMEBODY, packages, python_for, settings_in, warden_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes things for other users"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]
SOMEBODY_ELSE = 54322


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bsc-"))
    path.chmod(0o755)
    for name in ("sessions", "run"):
        (path / name).mkdir(mode=0o750)
        os.chown(path / name, SOMEBODY, SOMEBODY)
    yield path
    shutil.rmtree(path)


async def be_hub(settings: LocalSettings, uid: int, *words: str) -> dict[str, Any]:
    program = Path(__file__).with_name("as_hub.py")
    process = await asyncio.create_subprocess_exec(
        *(python_for(SOMEBODY), str(program), new_session_id(), *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        user=uid,
        group=uid,
        extra_groups=[],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": packages()},
    )
    out, err = await process.communicate(settings.to_json())
    assert process.returncode == 0, err.decode()
    told: dict[str, Any] = json.loads(out)
    return told


def ensure_it_went_well(told: dict[str, Any], settings: LocalSettings) -> None:
    assert told["hub"] == SOMEBODY
    assert told["uid"] in range(settings.first_uid, settings.first_uid + settings.uid_count)
    assert told["seen"] == f"{told['uid']}\n"
    assert "sandbox.sock" in told["sockets"]
    assert not told["left"]


async def test_an_unprivileged_hub_uses_a_listening_warden(place: Path) -> None:
    settings = settings_in(place, hub_uid=SOMEBODY)
    async with warden_of(0, settings, place / "warden.sock") as path:
        ensure_it_went_well(await be_hub(settings, SOMEBODY, str(path)), settings)


async def test_a_hub_started_as_root_drops_privileges_but_keeps_its_warden(
    place: Path,
) -> None:
    settings = settings_in(place, hub_uid=SOMEBODY)
    ensure_it_went_well(await be_hub(settings, 0), settings)


async def test_the_warden_answers_only_the_hubs_user(place: Path) -> None:
    settings = settings_in(place, hub_uid=SOMEBODY)
    async with warden_of(0, settings, place / "warden.sock") as path:
        path.chmod(0o666)  # as if its permissions were not enough
        answers = {uid: await ask_as(uid, path) for uid in (SOMEBODY, SOMEBODY_ELSE)}
    assert b'"running": []' in answers[SOMEBODY]
    assert answers[SOMEBODY_ELSE] == b""


async def ask_as(uid: int, path: Path) -> bytes:
    script = (
        "import socket, sys; link = socket.socket(socket.AF_UNIX); link.connect(sys.argv[1])\n"
        """link.sendall(b'{"id": 1, "do": "running"}\\n')\n"""
        "sys.stdout.buffer.write(link.recv(4096))"
    )
    process = await asyncio.create_subprocess_exec(
        *("/usr/bin/python3", "-c", script, str(path)),
        stdout=asyncio.subprocess.PIPE,
        user=uid,
        group=uid,
        extra_groups=[],
    )
    out, _ = await process.communicate()
    return out
