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


_WITH_TUN = """
set -e
made=$(mktemp -d)
mount -t tmpfs -o mode=0755 tun "$made"
mknod -m "$1" "$made/tun" c 10 200
mount --bind "$made/tun" /dev/net/tun
umount -l "$made"
rmdir "$made"
shift
exec "$@"
"""


def as_user(uid: int, *, tun: str = "") -> list[str]:
    """Words before a command that have it run as `uid`; by somebody who is root.

    `tun`: the mode of `/dev/net/tun` there, in a mount namespace of its own: on some machines it
    is root's alone, on others everybody's, and both are to be tested on each.
    """
    words = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
    if not tun:
        return words
    if not Path("/dev/net/tun").exists():
        pytest.skip("this machine has no /dev/net/tun")
    namespace = ["unshare", "--mount", "--propagation", "slave"]
    return [*namespace, "sh", "-c", _WITH_TUN, "sh", tun, *words]


@asynccontextmanager
async def warden_of(
    uid: int, settings: LocalSettings, path: Path, *, tun: str = "", network: int | None = None
) -> AsyncIterator[Path]:
    """A warden that runs as `uid` and answers at `path`; ended with SIGTERM.

    `network`: a process in whose network namespace it is.
    """
    process = await asyncio.create_subprocess_exec(
        *([] if network is None else ["nsenter", "--net", f"--target={network}"]),
        *as_user(uid, tun=tun),
        *(python_for(uid), "-P", "-m", "bascule.runtime.spawn.local.warden", str(path)),
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": packages()},
    )
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(settings.to_json())
    process.stdin.close()
    said = asyncio.create_task(process.stderr.read())
    try:
        while not path.exists():  # bounded by the test's own timeout
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
