"""Pictures of directory trees, to compare what is there before and after."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from pathlib import Path

GIT = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "gc.auto=0"]
Facts = tuple[object, ...]


def git(directory: Path, *arguments: str) -> str:
    environment = {"PATH": os.defpath, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        [*GIT, *arguments],
        cwd=directory,
        env=environment,
        check=True,
        capture_output=True,
    )
    return done.stdout.decode("utf-8", "surrogateescape")


def picture(root: Path, *, with_git: bool = False, with_times: bool = True) -> dict[str, Facts]:
    """Kind, mode, owner, time and content of everything below `root`, by path."""
    found: dict[str, Facts] = {}
    for directory, below, names in os.walk(root):
        if not with_git:
            below[:] = [name for name in below if name != ".git"]
        for name in [*below, *names]:
            if name == ".git" and not with_git:
                continue
            path = os.path.join(directory, name)
            found[os.path.relpath(path, root)] = _facts(path, with_times=with_times)
    return found


def git_picture(root: Path) -> dict[str, Facts]:
    """The same for every `.git` below `root`, and nothing else."""
    everything = picture(root, with_git=True)
    return {path: facts for path, facts in everything.items() if ".git" in path.split("/")}


def hard_links(root: Path) -> list[list[str]]:
    """Groups of paths that are one file."""
    by_inode: dict[int, list[str]] = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink() and ".git" not in path.parts:
            by_inode.setdefault(path.stat().st_ino, []).append(str(path.relative_to(root)))
    return [group for group in by_inode.values() if len(group) > 1]


def _facts(path: str, *, with_times: bool) -> Facts:
    found = os.lstat(path)
    time = found.st_mtime_ns if with_times else 0
    content = ""
    if stat.S_ISREG(found.st_mode):
        digest = hashlib.sha256()
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
        content = digest.hexdigest()
    elif stat.S_ISLNK(found.st_mode):
        content = os.readlink(path)
    return found.st_mode, found.st_uid, found.st_gid, time, content
