"""Wardens of another user than ours, on a socket."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import pytest

from bascule.runtime.spawn.local import LocalSettings

SOMEBODY = 54321
"""A user without rights."""


def settings_in(place: Path, **others: object) -> LocalSettings:
    return LocalSettings(
        sessions_dir=place / "sessions",
        run_dir=place / "run",
        state_dir=place / "warden",
        workspace_roots=(place,),
        **others,  # type: ignore[arg-type]
    )


@asynccontextmanager
async def warden_of(uid: int, settings: LocalSettings, path: Path) -> AsyncIterator[Path]:
    """A warden that runs as `uid` and answers at `path`; ended with SIGTERM."""
    process = await asyncio.create_subprocess_exec(
        *(python_for(uid), "-P", "-m", "bascule.runtime.spawn.local.warden", str(path)),
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        user=uid,
        group=uid,
        extra_groups=[],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": packages()},
    )
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(settings.to_json())
    process.stdin.close()
    said = asyncio.create_task(process.stderr.read())
    try:
        while not path.exists():  # bounded by the test's own time-out
            assert process.returncode is None, (await said).decode()
            await asyncio.sleep(0.01)
        yield path
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await said


def packages() -> str:
    """Where ours come from, without the library of this very Python."""
    return ":".join(entry for entry in sys.path if entry and not entry.startswith(sys.base_prefix))


@cache
def python_for(uid: int) -> str:
    """One that this user may run, with all that we have loaded; ours may be in our home."""
    for name in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run(
                [name, "-c", "import bascule.runtime.spawn.local.warden, pydantic_core, uvloop"],
                user=uid,
                group=uid,
                extra_groups=[],
                capture_output=True,
                env={"PYTHONPATH": packages()},
                check=True,
                cwd="/",
            )
            return name
    pytest.skip("no Python here that a user without rights may run")
