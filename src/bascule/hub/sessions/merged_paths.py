"""Stores which changes of a fork were merged, so that the next merge starts from there.

All functions block.

After a change was merged, the fork's version of that path is the last common version of both
sides. It replaces the version in the snapshot as the base of the next merge.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bascule.core.errors import StorageFailed
from bascule.forks.merge_rules import EntryKind, PathVersion
from bascule.forks.tree_files import Entry

_RECORD: Final = "record.json"
_CONTENTS: Final = "contents"


@dataclass(frozen=True, slots=True)
class MergedVersion:
    """A path of the fork when it was merged."""

    kind: EntryKind
    mode: int
    digest: str
    entry: Entry
    """Stat data of the path in the fork, which show whether it has changed since the merge."""


class MergedPaths:
    """The record of one fork, in a directory that the fork's programs cannot reach."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self) -> dict[str, MergedVersion | None]:
        """Versions by path; None: the removal of the path was merged."""
        try:
            value: dict[str, Any] = json.loads((self._directory / _RECORD).read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise StorageFailed(f"The merged paths of a fork cannot be read: {error}") from error
        return {path: None if each is None else _decode(each) for path, each in value.items()}

    def path_version(self, version: MergedVersion) -> PathVersion:
        """The version with its contents."""
        content = b""
        if version.digest:
            content = (self._directory / _CONTENTS / version.digest).read_bytes()
        return PathVersion(version.kind, content, version.mode)

    def keep(self, version: PathVersion, entry: Entry) -> MergedVersion:
        """Store the contents of a path before the merge sends them to the target session. `add`
        then records them as merged."""
        digest = ""
        if version.kind != "directory":
            digest = hashlib.sha256(version.content).hexdigest()
            path = self._directory / _CONTENTS / digest
            if not path.exists():
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                _write(path, version.content)
        return MergedVersion(version.kind, version.mode, digest, entry)

    def add(self, versions: Mapping[str, MergedVersion | None]) -> None:
        """Record that these paths were merged."""
        if versions:
            merged = self.read() | dict(versions)
            encoded = {
                path: None if each is None else _encode(each) for path, each in merged.items()
            }
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(self._directory / _RECORD, json.dumps(encoded).encode())
            self._sweep({each.digest for each in merged.values() if each is not None})

    def _sweep(self, in_use: set[str]) -> None:
        """Remove the contents that the record does not name."""
        contents = self._directory / _CONTENTS
        for each in contents.iterdir() if contents.is_dir() else ():
            if each.name not in in_use:
                each.unlink()


def _write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    new = path.with_name(path.name + ".new")
    new.write_bytes(content)
    new.replace(path)


def _encode(version: MergedVersion) -> dict[str, Any]:
    return {
        "kind": version.kind,
        "mode": version.mode,
        "digest": version.digest,
        "entry": list(version.entry),
    }


def _decode(value: Mapping[str, Any]) -> MergedVersion:
    return MergedVersion(value["kind"], value["mode"], value["digest"], Entry(*value["entry"]))
