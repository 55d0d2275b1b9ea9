"""A real PostgreSQL for a test run: started in a directory of its own, on a unix socket alone."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a server with an empty database `postgres`; skips loudly without one."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not on this machine: scripts/postgres installs it")
    place = Path(tempfile.mkdtemp(prefix="bsc-pg-"))
    user = _user()
    try:
        if user is not None:
            os.chown(place, user.pw_uid, user.pw_gid)
        data = place / "data"
        _run(user, programs / "initdb", "-D", data, "-U", "hub", "-A", "trust", "--no-sync")
        options = f"-c listen_addresses= -c unix_socket_directories={place} -c fsync=off"
        control = (programs / "pg_ctl", "-D", data, "-w", "-l", place / "log")
        _run(user, *control, "-o", options, "start")
        try:
            yield f"postgresql://hub@/postgres?host={place}"
        finally:
            _run(user, *control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _programs() -> Path | None:
    """Debian keeps the server's programs off the PATH."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return places[-1].parent if places else None


def _user() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root, so somebody else has to."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no other user here")


def _run(user: pwd.struct_passwd | None, *command: object) -> None:
    who = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    done = subprocess.run(
        list(map(str, command)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
        **who,  # type: ignore[call-overload]
    )
    if done.returncode != 0:
        raise AssertionError(f"{command[0]}: {done.stdout}{done.stderr}")
