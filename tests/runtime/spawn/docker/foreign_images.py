"""Images that do not contain Bascule, made from Debian's packages: no registry is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.dockerd import CannotRun

MUSL = "bascule-tests/musl:1"
"""As Alpine: musl, busybox, no bash, no Python."""
DEBIAN = "bascule-tests/debian-bullseye:1"
"""An older release than the one that Bascule's image is made from."""
EMPTY = "bascule-tests/empty:1"
"""No shell."""
_PASSWD = "root:x:0:0:root:/root:/bin/sh\npostgres:x:70:70::/var/lib/postgresql:/bin/sh\n"
_GROUP = "root:x:0:\npostgres:x:70:\n"


def ensure_musl(address: str) -> str:
    with ImageRoot(address, MUSL) as root:
        if root is not None:
            packages = root.parent
            _run(["apt-get", "download", "-q", "busybox-static", "musl"], cwd=packages)
            for each in packages.glob("*.deb"):
                _run(["dpkg", "-x", str(each), str(root)])
            names = _run([str(root / "bin/busybox"), "--list"]).split()
            for name in {*names} - {"busybox"}:
                (root / "bin" / name).symlink_to("busybox")
            shutil.rmtree(root / "usr/share")
            (root / "etc/passwd").write_text(_PASSWD)
            (root / "etc/group").write_text(_GROUP)
            (root / "etc/alpine-like").write_text("3\n")
            (root / "tmp").mkdir(mode=0o1777)
    return MUSL


def ensure_debian(address: str) -> str:
    with ImageRoot(address, DEBIAN) as root:
        if root is not None:
            _run(["debootstrap", "--variant=minbase", "bullseye", str(root)])
    return DEBIAN


def ensure_empty(address: str) -> str:
    with ImageRoot(address, EMPTY) as root:
        if root is not None:
            (root / "file").write_text("nothing else\n")
    return EMPTY


class ImageRoot:
    """A directory to fill, which becomes the image; None if the engine has the image."""

    def __init__(self, address: str, image: str) -> None:
        self._env = {**os.environ, "DOCKER_HOST": address}
        self._image = image
        self._place: Path | None = None

    def __enter__(self) -> Path | None:
        found = subprocess.run(
            ["docker", "image", "inspect", self._image], env=self._env, capture_output=True
        )
        if found.returncode == 0:
            return None
        self._place = Path(tempfile.mkdtemp(prefix="bsc-image-"))
        root = self._place / "root"
        root.mkdir()
        return root

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if self._place is None:
            return
        try:
            if kind is None:
                tar = ["tar", "-C", str(self._place / "root"), "--numeric-owner", "-c", "."]
                change = ["--change", 'CMD ["/bin/sh"]', "--change", "ENV KIND=foreign"]
                with subprocess.Popen(tar, stdout=subprocess.PIPE) as packing:
                    subprocess.run(
                        ["docker", "import", *change, "-", self._image],
                        check=True,
                        stdin=packing.stdout,
                        env=self._env,
                        capture_output=True,
                    )
                if packing.returncode != 0:
                    raise CannotRun(f"{self._image} could not be packed")
        finally:
            shutil.rmtree(self._place)


def _run(command: list[str], cwd: Path | None = None) -> str:
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if ran.returncode != 0:
        raise CannotRun(f"{command[0]}: {ran.stdout[-1000:]}{ran.stderr[-1000:]}")
    return ran.stdout
