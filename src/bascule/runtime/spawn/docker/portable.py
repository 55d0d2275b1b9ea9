"""A copy of this Python and of Bascule that runs in any Linux image of the same architecture.

The copy contains the program loader and every shared library that it needs, so it works in images
with another C library, such as Alpine's, or with an older one. A container mounts it read-only at
`PORTABLE`. The programs of the image are not affected: nothing is set in their environment.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

import bascule
from bascule.core.errors import MissingTool

PORTABLE: Final = "/opt/bascule-portable"
"""Path of the copy in containers."""
PROGRAMS: Final = f"{PORTABLE}/programs"
"""Directory with programs for images that lack them. It is last in the server's own PATH."""
PYTHON: Final = f"{PORTABLE}/bin/python3"
_LOADER: Final = f"{PORTABLE}/lib/loader"
_LIBRARIES: Final = f"{PORTABLE}/lib/shared"

INTERPRETER: Final = (
    *(_LOADER, "--library-path", _LIBRARIES, "--argv0", PYTHON),
    f"{PORTABLE}/bin/python",
)
"""Starts Python without any program of the image."""

_EXTRAS: Final = frozenset({"sandbox", "hub", "mcp", "ipython"})
_LEFT_OUT: Final = shutil.ignore_patterns(
    *("__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3"),
    *("site-packages", "dist-packages", "config-*", "*.a", "_tkinter*"),
)
_WRAPPER: Final = """#!/bin/sh
exec {loader} --library-path {libraries} --argv0 {name} {program} "$@"
"""
_ELF: Final = b"\x7fELF"
_LIBRARY: Final = re.compile(r"^\s*(?:(\S+) => )?(/\S+) \(0x", re.MULTILINE)
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def portable_key() -> str:
    """Identifies the copy: changes with this Python, its packages and Bascule's own code."""
    digest = hashlib.sha256(sys.version.encode())
    for name, found in sorted(_distributions().items()):
        digest.update(f"{name} {found.version}\n".encode())
    root = Path(bascule.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def make_portable(directory: Path) -> Path:
    """The copy below `directory`, made if it does not exist. Blocks for some seconds.

    Raises `MissingTool` if this machine cannot make one.
    """
    final = directory / portable_key()
    if final.is_dir():
        return final
    if shutil.which("ldd") is None:
        raise MissingTool(
            "`ldd` is not installed. It is needed to start an image that is not Bascule's own"
        )
    directory.mkdir(parents=True, exist_ok=True)
    made = directory / f"{final.name}.{os.getpid()}.tmp"
    shutil.rmtree(made, ignore_errors=True)
    try:
        _make(made)
        try:
            made.rename(final)
        except OSError:  # another process was faster
            if not final.is_dir():
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return final


def _make(made: Path) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = made / "lib" / version
    standard = sysconfig.get_path("stdlib", vars={"base": sys.base_prefix})
    shutil.copytree(standard, library, ignore=_LEFT_OUT, symlinks=False)
    packages = library / "site-packages"
    packages.mkdir()
    for found in _distributions().values():
        _copy_distribution(found, packages)
    own = Path(bascule.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(own, packages / "bascule", ignore=ignored, dirs_exist_ok=True)
    (made / "bin").mkdir()
    (made / "programs").mkdir()
    interpreter = Path(sys.executable).resolve()
    shutil.copy(interpreter, made / "bin/python")
    _write_wrapper(made / "bin/python3", PYTHON, f"{PORTABLE}/bin/python")
    programs = [made / "bin/python"]
    if (bash := shutil.which("bash")) is not None:
        shutil.copy(Path(bash).resolve(), made / "programs/.bash")
        _write_wrapper(made / "programs/bash", f"{PROGRAMS}/bash", f"{PROGRAMS}/.bash")
        programs.append(made / "programs/.bash")
    shared = made / "lib/shared"
    shared.mkdir()
    for each in _shared_libraries([*programs, *made.rglob("*.so"), *made.rglob("*.so.*")]):
        shutil.copy(each.resolve(), shared / each.name)
    shutil.copy(_loader_of(interpreter), made / "lib/loader")
    for path in (made, *made.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _write_wrapper(path: Path, name: str, program: str) -> None:
    script = _WRAPPER.format(loader=_LOADER, libraries=_LIBRARIES, name=name, program=program)
    path.write_text(script)
    path.chmod(0o755)


# Shared libraries -------------------------------------------------------------------------------


def _shared_libraries(files: Sequence[Path]) -> Iterator[Path]:
    """Every library of this system that the files load, also indirectly."""
    seen: set[str] = set()
    for batch in (files[start : start + 50] for start in range(0, len(files), 50)):
        elf = [each for each in batch if not each.is_symlink() and _is_elf(each)]
        if not elf:
            continue
        # A static program makes ldd fail, after it has described the others.
        listed = subprocess.run(["ldd", *elf], capture_output=True, text=True, check=False)
        for name, path in _LIBRARY.findall(listed.stdout):
            key = name or Path(path).name
            is_bundled = "/site-packages/" in path  # beside the module that loads it
            if key not in seen and not is_bundled:
                seen.add(key)
                yield Path(path)


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == _ELF


def _loader_of(program: Path) -> Path:
    """The program loader that a program names."""
    content = program.read_bytes()
    found = re.search(rb"\0(/lib[A-Za-z0-9/._-]*/ld-[A-Za-z0-9._-]+)\0", content)
    if found is None:
        raise MissingTool(
            f"{program} names no program loader, so it cannot run in other images; start the hub "
            "with a Python that is linked dynamically"
        )
    return Path(os.fsdecode(found[1])).resolve()


# Packages ---------------------------------------------------------------------------------------


def _distributions() -> dict[str, metadata.Distribution]:
    """The installed packages that a sandbox needs, by normalized name."""
    wanted = [_normalized("bascule")]
    found: dict[str, metadata.Distribution] = {}
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        extras = _EXTRAS if name == "bascule" else frozenset[str]()
        wanted += _requirements(found[name], extras)
    return found


def _requirements(distribution: metadata.Distribution, extras: frozenset[str]) -> Iterator[str]:
    """Names of requirements. Markers other than extras are not evaluated: the caller skips packages
    that are not installed."""
    for line in distribution.requires or ():
        requirement, _, marker = line.partition(";")
        asked = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
        if asked is None or asked[1] in extras:
            name = _NAME.match(requirement.strip())
            if name is not None:
                yield _normalized(name[0])


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _copy_distribution(distribution: metadata.Distribution, packages: Path) -> None:
    """Copy the files of a package that are below its site-packages."""
    root = Path(str(distribution.locate_file("")))
    for each in distribution.files or ():
        if ".." in each.parts or each.suffix in (".pyc", ".pth") or each.parts[0] == "__pycache__":
            continue
        source = root / each
        if source.is_file():
            target = packages / each
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
