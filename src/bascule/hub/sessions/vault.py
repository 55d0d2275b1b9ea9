"""Secrets of sessions, in files that only the hub can read."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bascule.core.sessions import SessionId

from .masking import Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The secrets of one session."""

    key: str = field(repr=False)
    """Key of the session's action server."""
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values of the secret environment variables."""
    credential: Mapping[str, str] | None = field(default=None, repr=False)
    """Credential for cloning the workspace; deleted after the clone."""

    def mask(self) -> Mask:
        """A mask for all of these secrets."""
        return Mask([self.key, *self.values.values(), *(self.credential or {}).values()])


class Vault:
    """One file of mode 600 for each session. All methods block."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def open(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(self, session_id: SessionId, secrets: Secrets) -> None:
        """Write the file atomically."""
        path, temporary = self._path(session_id), self._directory / f".{session_id}"
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(secrets), file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def get(self, session_id: SessionId) -> Secrets | None:
        try:
            return Secrets(**json.loads(self._path(session_id).read_text()))
        except FileNotFoundError:
            return None

    def remove(self, session_id: SessionId) -> None:
        self._path(session_id).unlink(missing_ok=True)

    def sweep(self, known: Collection[SessionId]) -> None:
        """Delete the files of sessions that are not in `known`: a killed hub can leave some."""
        for each in self._directory.iterdir():
            if each.suffix != ".json" or each.stem not in known:
                each.unlink()

    def _path(self, session_id: SessionId) -> Path:
        return self._directory / f"{session_id}.json"
