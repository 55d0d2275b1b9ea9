"""Files that tools lose or change: a table of makers, each for one path or directory."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from tests.checkpoints.trees import git

Maker = Callable[[Path], None]
MIXED = b"one\r\ntwo\nthree\r\n"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"


def text(content: bytes = b"text\n", mode: int = 0o644) -> Maker:
    def make(path: Path) -> None:
        path.write_bytes(content)
        path.chmod(mode)

    return make


def below(name: str, maker: Maker) -> Maker:
    def make(path: Path) -> None:
        (path / name).parent.mkdir(parents=True)
        maker(path / name)

    return make


def link(target: str) -> Maker:
    return lambda path: path.symlink_to(target)


def directory(mode: int) -> Maker:
    def make(path: Path) -> None:
        path.mkdir()
        (path / "file").write_text("inside\n")
        path.chmod(mode)

    return make


def repository(*, commit: bool) -> Maker:
    def make(path: Path) -> None:
        path.mkdir()
        (path / "file").write_text("nested\n")
        git(path, "init", "-q")
        if commit:
            git(path, "add", "-A")
            git(path, "commit", "-qm", "nested")
            (path / "untracked").write_text("untracked\n")

    return make


def submodule(path: Path) -> None:
    """The `.git` of a submodule is a file, and its repository is in that of the workspace."""
    path.mkdir()
    (path / "file").write_text("submodule\n")
    modules = path.parent / ".git/modules/submodule"
    modules.parent.mkdir()
    git(path, "init", "-q", f"--separate-git-dir={modules}")
    git(path, "add", "-A")
    git(path, "commit", "-qm", "submodule")


def deep(path: Path, levels: int = 200, length: int = 9) -> None:
    """Made level by level, as the whole path may be longer than a path can be."""
    path.mkdir()
    current = os.open(path, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d" * length, dir_fd=current)
        inner = os.open("d" * length, os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=current))
    os.close(current)


def hard_link(path: Path) -> None:
    path.mkdir()
    (path / "one").write_text("twice\n")
    os.link(path / "one", path / "two")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.seek(5 << 20)
        file.write(b"end")
        file.truncate(8 << 20)


def large(path: Path) -> None:
    block = bytes(range(256)) * 4096
    with path.open("wb") as file:
        for number in range(100):
            file.write(number.to_bytes(4, "big") + block[4:])


def old(path: Path) -> None:
    path.write_text("old\n")
    os.utime(path, ns=(0, 1))


def future(path: Path) -> None:
    path.write_text("future\n")
    os.utime(path, ns=(0, 4_000_000_000_000_000_003))


def bad_name(path: Path) -> None:
    Path(os.fsdecode(os.fsencode(path) + b"-\xff\xfe\x80")).write_text("name\n")


def many(path: Path) -> None:
    path.mkdir()
    for number in range(250):
        (path / f"{number:03}").write_text(f"{number}\n")


def case_pair(path: Path) -> None:
    path.mkdir()
    (path / "Readme").write_text("upper\n")
    (path / "README").write_text("all upper\n")


def file_and_backup(path: Path) -> None:
    path.write_text("text\n")
    path.with_name(f"{path.name}~").write_text("backup\n")


AWKWARD: dict[str, Maker] = {
    ".env": text(b"SECRET=1\n"),  # ignored
    "ignored-directory": below("settings.json", text()),  # ignored
    ".gitignore": text(b".env\nignored-directory/\n*.pyc\n"),
    ".gitattributes": text(b"*.mixed text=auto\n*.ident ident\n*.lfs filter=lfs\n*.rot filter=r\n"),
    "key": text(b"private", 0o600),
    "nobody-reads": text(b"unreadable", 0o000),
    "read-only": text(mode=0o444),
    "executable": text(b"#!/bin/sh\n", 0o755),
    "setuid": text(mode=stat.S_ISUID | 0o755),
    "setgid": text(mode=stat.S_ISGID | 0o755),
    "sticky": directory(stat.S_ISVTX | 0o777),
    "world-writable": text(mode=0o666),
    "empty": text(b""),
    "one-byte": text(b"\0"),
    "no-newline": text(b"no newline at the end"),
    "mixed.mixed": text(MIXED),
    "crlf": text(b"a\r\nb\r\n"),
    "keyword.ident": text(b"$Id: expanded $\n"),
    "pointer.lfs": text(LFS),
    "large.lfs": text(b"the real content of a large file" * 1000),
    "rotated.rot": text(b"filtered"),
    "binary": text(bytes(range(256)) * 17),
    "utf-16": text("Größe\n".encode("utf-16")),
    "bom": text(b"\xef\xbb\xbftext\n"),
    "invalid-utf8-content": text(b"\xff\xfe\xfa"),
    "invalid-utf8": bad_name,
    "new\nline": text(),
    "tab\tand space ": text(),
    "-rf": text(),
    "quote'\"$(x)`": text(),
    "ünïcödé": text(),
    "u\u0308n": text(),
    "x" * 255: text(),
    "case": case_pair,
    "backup": file_and_backup,
    ".bascule-temporary": text(),
    "old": old,
    "future": future,
    "hard-link": hard_link,
    "empty-directory": lambda path: path.mkdir(),
    "closed-directory": directory(0o555),
    "very-closed-directory": directory(0o500),
    "nested-empty": below("a/b/c/file", text()),
    "deep": deep,
    "many": many,
    "link": link("binary"),
    "dangling": link("nowhere"),
    "absolute-link": link("/etc/hostname"),
    "link-to-directory": link("empty-directory"),
    "link-to-itself": link("link-to-itself"),
    "link-out": link("../outside"),
    "pipe": lambda path: os.mkfifo(path, 0o640),
    "sparse": sparse,
    "nested-repository": repository(commit=True),
    "nested-without-commit": repository(commit=False),
    "submodule": submodule,
    "module.pyc": text(b"\0compiled"),
    "patch.orig": text(),
    "core": text(b"\x7fELF"),
    ".hidden": below(".deeper/.file", text()),
}
"""By the name of what each makes."""


def make_all(workspace: Path) -> None:
    """A repository in which most of the table is tracked, some of it is dirty, and some is not."""
    git(workspace, "init", "-q", "-b", "main")
    for name, maker in AWKWARD.items():
        maker(workspace / name)
    nested = ("nested-repository", "nested-without-commit", "submodule")
    excluded = [f":!{name}" for name in nested]
    git(workspace, "add", "-A", "--", ".", *excluded)
    git(workspace, "commit", "-qm", "all")
    git(workspace, "gc", "-q")
    (workspace / "patch.orig").write_text("dirty\n")
    (workspace / "untracked").write_text("untracked\n")


def make_socket(path: Path) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    return bound
