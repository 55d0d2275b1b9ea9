"""OpenHands V0 in the user's VS Code window."""

from __future__ import annotations

import base64
import io
import shlex
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

import bascule.runtime
from bascule.adapters.shell_names import ShellNames
from bascule.core.actions import CmdRun
from bascule.core.errors import UsageError
from bascule.core.observations import CmdOutput
from bascule.runtime import SyncRuntime

from ._runtime import BasculeRuntime

_NAMES: Final = ShellNames()
_MAX_PIECE_BYTES: Final = 192 << 10
"""Maximum bytes of a file in one command."""
_TRANSFER_TIMEOUT: Final = 300.0


class VSCodeRuntime(BasculeRuntime):
    """Agents work in the first folder of the window that BASCULE_HUB and BASCULE_WINDOW name.

    Programs in the window's shells continue when the conversation ends. Files are copied with
    commands in the window, which has no file transfer. These commands need `base64` and `tar`.
    """

    def _open(self) -> tuple[SyncRuntime, str]:
        window = bascule.runtime.VSCodeRuntime(default_timeout=None)
        runtime = SyncRuntime(window)
        runtime.connect()
        if not window.window.folders:
            runtime.close()
            raise UsageError(f"The window {window.window.name!r} has no folder open to work in")
        self._shell = _NAMES.take()
        return runtime, window.window.folders[0].path

    def close(self) -> None:
        if self._runtime is not None:
            _NAMES.release(self._shell)
        super().close()

    def copy_to(self, host_src: str, sandbox_dest: str, recursive: bool = False) -> None:
        """Copy a file or directory into the directory `sandbox_dest`, under its own name."""
        source = Path(host_src)
        if not source.exists() or (source.is_dir() and not recursive):
            raise FileNotFoundError(f"There is no file {host_src} to copy")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            archive.add(source, arcname=source.name)
        directory = shlex.quote(str(self.workspace_root / sandbox_dest))
        self._unpack(packed.getvalue(), directory)

    def copy_from(self, path: str) -> Path:
        """Create a zip of `path`. The caller removes the zip."""
        source = self.workspace_root / path
        quoted = shlex.quote(str(source))
        self._command(f"test -e {quoted}", FileNotFoundError(f"There is no {source} to copy"))
        pack = f"if test -d {quoted}; then tar -czf - -C {quoted} .; else "
        pack += f"tar -czf - -C {shlex.quote(str(source.parent))} {shlex.quote(source.name)}; fi"
        error = RuntimeError(f"{source} could not be packed")
        encoded = self._command(f"set -o pipefail; {{ {pack}; }} | base64", error)
        return _as_zip(base64.b64decode(encoded))

    def _unpack(self, packed: bytes, directory: str) -> None:
        error = RuntimeError(f"The files could not be unpacked in {directory}")
        file = self._command("mktemp", error).strip()
        for start in range(0, len(packed), _MAX_PIECE_BYTES):
            text = base64.encodebytes(packed[start : start + _MAX_PIECE_BYTES]).decode()
            self._command(f"base64 -d >> {file} <<'END'\n{text}END", error)
        unpack = f"mkdir -p {directory} && tar -xzf {file} -C {directory} --no-same-owner"
        self._command(f"{unpack}; s=$?; rm -f {file}; (exit $s)", error)

    def _command(self, command: str, error: Exception) -> str:
        """Run a command that the user does not see, and return its output. Raises `error` if the
        command fails."""
        action = CmdRun(
            command,
            is_static=True,
            hidden=True,
            blocking=True,
            timeout=_TRANSFER_TIMEOUT,
            output_limit=0,
            cwd=str(self.workspace_root),
        )
        seen: Any = self._open_runtime.act(action)
        if not isinstance(seen, CmdOutput) or seen.exit_code != 0:
            error.add_note(seen.content)
            raise error
        return seen.content


def _as_zip(packed: bytes) -> Path:
    with (
        tempfile.NamedTemporaryFile(suffix=".zip", delete=False) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        tarfile.open(fileobj=io.BytesIO(packed)) as files,
    ):
        for member in files:
            content = files.extractfile(member) if member.isfile() else None
            if content is not None:
                archive.writestr(member.name.removeprefix("./"), content.read())
    return Path(file.name)
