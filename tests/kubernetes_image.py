"""The image of sessions in the tests' cluster, and that of pods' own containers.

It is made of the files of this machine's Debian packages and of this clone, so it needs no network
and always has the present code.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parent.parent
IMAGE = "docker.io/bascule/tests:1"
PAUSE = "docker.io/bascule/pause:1"
VERSION = "python3.11"
PYTHON = Path("/usr/bin") / VERSION
"""Debian's, which runs the packages of our `.venv` in the image."""
PACKAGES = (
    *("bash", "coreutils", "findutils", "git", "grep", "libc-bin", "mawk", "openssl", "procps"),
    *("python3.11", "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "sed"),
    *("tmux", "ripgrep", "util-linux", "ncurses-base", "dash", "base-files", "media-types"),
)
"""Debian packages of this machine whose files are in the image."""
LEFT_OUT = ("playwright", "mypy", "mypyc", "pip", "sqlalchemy", "pillow.libs", "PIL", "setuptools")


def is_possible() -> bool:
    return PYTHON.exists() and _site_packages().is_dir()


def write_images(path: Path) -> None:
    """Write an archive with both images."""
    with tempfile.TemporaryDirectory(prefix="bsc-image-") as directory:
        layer = Path(directory, "layer.tar")
        with tarfile.open(layer, "w") as tar:
            _add_system(tar)
            _add_bascule(tar)
        blobs: dict[str, bytes | Path] = {}
        layer_digest = _digest_of_file(layer)
        blobs[layer_digest] = layer
        manifests = []
        for name, entrypoint in ((IMAGE, ["/bin/bash"]), (PAUSE, ["/usr/bin/sleep", "infinity"])):
            config = _blob(blobs, _image_config(entrypoint, layer_digest))
            manifest = _blob(
                blobs,
                {
                    "schemaVersion": 2,
                    "mediaType": "application/vnd.oci.image.manifest.v1+json",
                    "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **config},
                    "layers": [
                        {
                            "mediaType": "application/vnd.oci.image.layer.v1.tar",
                            "digest": layer_digest,
                            "size": layer.stat().st_size,
                        }
                    ],
                },
            )
            manifests.append(
                {
                    "mediaType": "application/vnd.oci.image.manifest.v1+json",
                    **manifest,
                    "annotations": {"io.containerd.image.name": name},
                }
            )
        with tarfile.open(path, "w") as archive:
            _add_text(archive, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}))
            index = {"schemaVersion": 2, "manifests": manifests}
            _add_text(archive, "index.json", json.dumps(index))
            for digest, content in blobs.items():
                blob = "blobs/" + digest.replace(":", "/")
                if isinstance(content, Path):
                    archive.add(content, blob)
                else:
                    _add_text(archive, blob, content.decode())


def _image_config(entrypoint: Sequence[str], layer: str) -> Mapping[str, Any]:
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": list(entrypoint),
            "Env": [path, "LANG=C.UTF-8", "FROM_IMAGE=yes"],
            "User": "1000",
        },
        "rootfs": {"type": "layers", "diff_ids": [layer]},
    }


def _blob(blobs: dict[str, bytes | Path], content: Mapping[str, Any]) -> dict[str, Any]:
    body = json.dumps(content).encode()
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    blobs[digest] = body
    return {"digest": digest, "size": len(body)}


def _digest_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _add_system(tar: tarfile.TarFile) -> None:
    for directory in ("usr", "usr/bin", "usr/lib", "usr/sbin", "etc", "var", "home", "run", "opt"):
        _add_directory(tar, directory)
    for directory in ("proc", "sys", "dev", "workspace", "var/lib", "run/bascule", "home/bascule"):
        _add_directory(tar, directory)
    for directory, mode in (("tmp", 0o1777), ("var/tmp", 0o1777), ("usr/lib64", 0o755)):
        _add_directory(tar, directory, mode)
    for link in ("bin", "sbin", "lib", "lib64"):
        _add_link(tar, link, f"usr/{link}")
    _add_text(tar, "etc/passwd", "bascule:x:1000:1000::/home/bascule:/bin/bash\n")
    _add_text(tar, "etc/group", "bascule:x:1000:\n")
    _add_link(tar, "usr/bin/awk", "mawk")
    _add_link(tar, "usr/bin/python3", VERSION)
    _add_text(tar, "etc/ssl/openssl.cnf", Path("/etc/ssl/openssl.cnf").read_text())
    listed = subprocess.run(["dpkg", "-L", *_installed()], capture_output=True, text=True)
    files = {Path("/usr/bin/sh"), *map(_real, listed.stdout.split())}
    # Compiled modules belong to no package; without them each start would compile the modules.
    files |= {*Path("/usr/lib", VERSION).rglob("__pycache__/*.pyc")}
    wanted = {each for each in files if each.is_file() and _is_wanted(each)}
    for each in sorted(wanted | _libraries(wanted)):
        tar.add(each, str(each).lstrip("/"), recursive=False)


def _installed() -> list[str]:
    return [
        each
        for each in PACKAGES
        if subprocess.run(["dpkg", "-s", each], capture_output=True).returncode == 0
    ]


def _real(name: str) -> Path:
    """The path without the links of a merged /usr."""
    for each in ("bin", "sbin", "lib64", "lib"):
        if name.startswith(f"/{each}/"):
            return Path(f"/usr{name}")
    return Path(name)


def _is_wanted(path: Path) -> bool:
    return path.parts[1] == "usr" and path.parts[2] in ("bin", "lib", "lib64", "sbin")


def _libraries(files: Collection[Path]) -> set[Path]:
    """The shared libraries of the programs, and the links that name them."""
    found: set[Path] = set()
    programs = [str(f) for f in files if f.stat().st_mode & 0o111 or ".so" in f.name]
    extensions = _site_packages().rglob("*.so*")
    programs += [
        str(f) for f in extensions if f.relative_to(_site_packages()).parts[0] not in LEFT_OUT
    ]
    for start in range(0, len(programs), 200):
        listed = subprocess.run(
            ["ldd", *programs[start : start + 200]], capture_output=True, text=True
        )
        for word in listed.stdout.split():
            if word.startswith(("/lib", "/usr/lib")) and not word.endswith(":"):
                path = _real(word)
                found |= {path, path.resolve()}
    return {each for each in found if each.exists()}


def _site_packages() -> Path:
    return PROJECT / ".venv" / "lib" / VERSION / "site-packages"


def _add_bascule(tar: tarfile.TarFile) -> None:
    """An environment of Debian's Python, with our packages and what they need."""
    for directory in ("opt/bascule", "opt/bascule/bin", "opt/bascule/lib"):
        _add_directory(tar, directory)
    _add_link(tar, "opt/bascule/bin/python", str(PYTHON))
    _add_text(tar, "opt/bascule/pyvenv.cfg", "home = /usr/bin\n")
    target = f"opt/bascule/lib/{VERSION}/site-packages"
    for each in sorted(_site_packages().iterdir()):
        is_ours = each.name not in LEFT_OUT and "__mypyc" not in each.name
        if is_ours and each.suffix != ".pth":
            tar.add(each, f"{target}/{each.name}", filter=_readable)
    for package in ("bascule", "vscode_bridge"):
        tar.add(PROJECT / "src" / package, f"{target}/{package}", filter=_readable)


def _readable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.mode |= 0o555 if entry.isdir() else 0o444
    return entry


def _add_directory(tar: tarfile.TarFile, name: str, mode: int = 0o755) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    tar.addfile(entry)


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    tar.addfile(entry)


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    tar.addfile(entry, io.BytesIO(content))
