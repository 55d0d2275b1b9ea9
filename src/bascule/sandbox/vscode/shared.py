"""The read-only directory of extensions that all VS Code servers of a machine share.

VS Code reads built-in extensions from one directory, and installed ones from another. Bascule's
extension is added to the built-in ones, so sessions need not install it, cannot remove it, and
share one copy in memory.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import Final
from zipfile import BadZipFile, ZipFile

from bascule.core.errors import MissingTool

from .installation import Installation

_OWN: Final = PurePosixPath("node_modules/code-server/lib/vscode/extensions")
_NAME: Final = "bascule-vscode"
_PREFIX: Final = "extension/"


def shared_extensions(installation: Installation, extension: Path) -> Path:
    """Return a directory with VS Code's built-in extensions and ours; create it if it is missing.

    The directory is inside the installation and uses relative links, so the installation can be
    mounted at any other path. Blocks the calling thread. Raises `MissingTool`.
    """
    installation.ensure_complete()
    fingerprint = hashlib.sha256(extension.read_bytes()).hexdigest()[:12]
    place = installation.home / f"extensions-{fingerprint}"
    if place.is_dir():
        return place
    fresh = Path(tempfile.mkdtemp(prefix="extensions-", suffix=".partial", dir=installation.home))
    try:
        for each in (installation.home / _OWN).iterdir():
            (fresh / each.name).symlink_to(PurePosixPath("..") / _OWN / each.name)
        _unpack(extension, fresh / _NAME)
        fresh.chmod(0o755)
        fresh.rename(place)
    except OSError:
        if not place.is_dir():  # if it exists now, another process was faster
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return place


def _unpack(extension: Path, destination: Path) -> None:
    """Unpack our own `.vsix`; its content is trusted."""
    try:
        with ZipFile(extension) as package:
            for name in package.namelist():
                if name.startswith(_PREFIX) and not name.endswith("/"):
                    file = destination / name.removeprefix(_PREFIX)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(package.read(name))
    except BadZipFile as error:
        raise MissingTool(f"{extension} is not a packaged extension: {error}") from error
