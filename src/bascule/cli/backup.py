"""`bascule backup`: copy the state of this machine's hubs into one tar file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import click

from bascule.core.errors import InvalidSetting, MissingTool, StorageFailed, UsageError

from .hub_state import UP_DIRECTORIES, command_of, folder_of, running_hubs
from .hub_target import print_note
from .signatures import CommandArgument, CommandOption

_DATABASE: Final = "hub.sqlite"
_SHARED: Final = "admin-token"
"""A file that all hubs of a user share, in the state directory of the settings."""
_COPIED_NAMES: Final = ("bases", "folder", "secrets", "sessions", "timelines")
"""Copied for each hub, together with its database. A hub recreates all other files."""
_COUNTED_TABLES: Final = ("sessions", "tokens", "windows")
_FILE_CHANGED: Final = 1
"""Exit code of tar if a file changed while it was read."""


def backup(
    file: Annotated[
        Path, CommandArgument(help="Tar file to write, readable only by you; it must not exist.")
    ],
    config: Annotated[
        Path | None,
        CommandOption(help="Settings file that names the state directory (`state_dir`)."),
    ] = None,
    state_dir: Annotated[
        Path | None,
        CommandOption(
            help="State directory to back up, with all hubs in it. [default: "
            "~/.local/state/bascule]"
        ),
    ] = None,
) -> int:
    """Back up a user's hubs on this machine to FILE: databases, secrets, sessions, timelines.

    The backup contains all hubs in the state directory: the hub of `bascule serve` and the hub of
    each `bascule up` folder, running or not. Their names are printed on stderr. Databases are
    copied consistently even while a hub runs; files of running sessions are copied as they are at
    that moment. A PostgreSQL database is not included: copy it with pg_dump.

    If there is nothing to back up, the exit code is 2. If a file cannot be read, the exit code is
    1. In both cases FILE is not written.
    """
    from .hub_settings import load

    settings = load(config, os.environ, {"state_dir": state_dir})
    if file.exists():
        raise UsageError(f"{file} already exists; name a new file")
    if shutil.which("tar") is None:
        raise MissingTool("tar was not found; as root: apt-get install tar")
    state = settings.state()
    with tempfile.TemporaryDirectory(prefix="bascule-backup-") as scratch:
        found = _copy_databases(state, Path(scratch), has_files=not settings.database_url)
        if not found:
            raise InvalidSetting(
                f"there is nothing to back up in {state}: no hub there has a session, a "
                "token or a window. Check that you are the right user, or name another state "
                "directory with --state-dir or --config"
            )
        _write(file, state, Path(scratch), found)
    for each in found:
        print_note(f"hub: {each}")
    if settings.database_url:
        print_note(
            "the database is not included, because database_url names a server; copy it with "
            "pg_dump"
        )
    print_note(
        f"to restore, stop every hub, then: tar -xpf {file} -C {state}  (into an empty directory)"
    )
    click.echo(str(file))
    return 0


@dataclass(frozen=True, slots=True)
class _Hub:
    """A hub to back up."""

    state: Path
    counts: Sequence[str]
    is_running: bool

    def __str__(self) -> str:
        runs = "running" if self.is_running else "not running"
        counts = ", ".join(self.counts) or "database on a server"
        return f"{command_of(folder_of(self.state))} ({runs}): {counts}"


def _copy_databases(state: Path, scratch: Path, *, has_files: bool) -> Sequence[_Hub]:
    """The hubs that have data. Copies their databases to the same relative paths in `scratch`."""
    running = {each.state for each in running_hubs(state)}
    found = []
    for directory in (state, *sorted(state.glob(UP_DIRECTORIES))):
        counts: Sequence[str] = ()
        if has_files:
            counts = _copy_database(directory, scratch / directory.relative_to(state))
            if not counts:
                continue
        elif not any((directory / name).is_dir() for name in _COPIED_NAMES):
            continue
        found.append(_Hub(directory, counts, directory in running))
    return found


def _copy_database(state: Path, target: Path) -> Sequence[str]:
    """Copy a database. Returns its row counts as text for users; empty if it has no rows."""
    if not (state / _DATABASE).is_file():
        return ()
    target.mkdir(parents=True, exist_ok=True)
    try:
        with (
            closing(sqlite3.connect(state / _DATABASE)) as source,
            closing(sqlite3.connect(target / _DATABASE)) as copy,
        ):
            source.backup(copy)
            counts = {name: _count(copy, name) for name in _COUNTED_TABLES}
    except sqlite3.Error as error:
        raise StorageFailed(f"cannot copy {state / _DATABASE}: {error}") from error
    return [f"{name} {count}" for name, count in counts.items()] if any(counts.values()) else ()


def _count(database: sqlite3.Connection, table: str) -> int:
    """The number of rows; 0 if the database is of an older version without this table."""
    known = database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    if known is None:
        return 0
    count: int = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
    return count


def _write(file: Path, state: Path, scratch: Path, hubs: Sequence[_Hub]) -> None:
    """Write the tar file, with paths relative to `state`. It gets its name only when complete."""
    partial = file.with_name(f".{file.name}.partial")
    copied = [_SHARED] if (state / _SHARED).is_file() else []
    for hub in hubs:
        below = hub.state.relative_to(state)
        copied += [str(below / name) for name in _COPIED_NAMES if (hub.state / name).exists()]
    databases = [str(each.relative_to(scratch)) for each in sorted(scratch.rglob(_DATABASE))]
    try:
        partial.touch(mode=0o600)
        subprocess.run(
            [
                *("tar", "--create", f"--file={partial.absolute()}", "--numeric-owner"),
                *("--warning=no-file-ignored", "--directory", str(state), *copied),
                *("--directory", str(scratch), *databases),
            ],
            check=True,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        partial.rename(file)
    except subprocess.CalledProcessError as error:
        if error.returncode != _FILE_CHANGED:
            lines = error.stderr.strip().splitlines()
            raise StorageFailed(
                f"some files could not be copied, so {file} was not written. tar: {lines[0]}"
                + ("" if os.geteuid() == 0 else " (session files may need root)")
            ) from error
        partial.rename(file)
    except OSError as error:
        raise StorageFailed(f"cannot write {file}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
