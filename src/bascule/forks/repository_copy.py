"""Copies a git repository for a fork: objects, refs and index.

No git program runs on the source repository, so its configuration and hooks have no effect, and
nothing below its `.git` is written. The copy has no remotes, hooks, stashes or alternates.
All functions block.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from typing import Final

from .file_copy import FileCopier
from .tree_files import DIRECTORY, REGULAR, EntryCount, list_tree, opened_below, scan_directory

_FILES: Final = ("HEAD", "packed-refs", "index", "shallow", "ORIG_HEAD")
_INFO: Final = ("exclude", "attributes", "sparse-checkout")
_STASH: Final = "stash"
_PACKS: Final = "pack"
"""Directory of packs. It is copied after the loose objects, which `git gc` removes after it has
written a pack."""
_MAX_DEPTH: Final = 64
"""Maximum depth of directories in a repository. Git itself nests at most 2 levels, except for refs
with slashes in their names."""
_MAX_TRIES: Final = 5
_SMALL: Final = 1 << 20
_KEPT_SETTINGS: Final = {
    "core": ("autocrlf", "eol", "ignorecase", "filemode", "symlinks", "sparsecheckout"),
    "user": ("name", "email"),
}
"""Settings that the copy keeps: how files are written, and the author of commits."""
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SECTION: Final = re.compile(r"\s*\[\s*([A-Za-z0-9.-]+)(?:\s+\"(?:[^\"\\]|\\.)*\")?\s*\]")
_VARIABLE: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*?)\s*")


class CannotCopyRepository(Exception):
    """The repository cannot be copied; the message has the reason. A part may have been copied."""


def copy_repository(source: int, target: int, copier: FileCopier, count: EntryCount) -> None:
    """Copy the repository in the open directory `source`, a `.git`, into the empty `target`.

    Raises `CannotCopyRepository`, and `QuotaExceeded` of `count`.
    """
    copying = _RepositoryCopier(copier, count)
    config = _new_config(source)
    for name in ("commondir", "objects/info/alternates", "objects/info/http-alternates"):
        if _exists(source, name):
            raise CannotCopyRepository(f"its git repository needs another one ({name})")
    for name in ("HEAD", "objects", "refs"):
        if not _exists(source, name):
            raise CannotCopyRepository("its .git is not a repository")
    # The order matters while git works in the source. It packs refs before it removes the
    # loose refs, and it writes objects before the refs to these objects.
    copying.copy_below(source, "refs", target)
    for name in [*_FILES, *copying.shared_indexes(source)]:
        with suppress(FileNotFoundError):
            copier.copy(source, name, target)
    _drop_packed_stash(target)
    copying.copy_below(source, "objects", target)
    if _exists(source, "info"):
        os.mkdir("info", dir_fd=target)
        with opened_below(source, "info") as here, opened_below(target, "info") as there:
            for name in _INFO:
                if _exists(here, name):
                    copier.copy(here, name, there)
    descriptor = os.open("config", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=target)
    with os.fdopen(descriptor, "w") as file:
        file.write(config)


def branches(git_dir: int) -> dict[str, str]:
    """The commits of all branches and of the stash, by ref, without the branch of HEAD."""
    found: dict[str, str] = {}
    for line in _read_text(git_dir, "packed-refs").splitlines():
        commit, _, ref = line.partition(" ")
        if ref == "refs/stash" or ref.startswith("refs/heads/"):
            found[ref] = commit
    loose = ["refs/stash"]
    with (
        suppress(FileNotFoundError, NotADirectoryError),
        opened_below(git_dir, "refs/heads") as heads,
    ):
        loose += [f"refs/heads/{each}" for each in list_tree(heads).entries]
    found |= {ref: text for ref in loose if (text := _read_text(git_dir, ref).strip())}
    found.pop(_read_text(git_dir, "HEAD").strip().removeprefix("ref: "), None)
    return found


def head_commit(git_dir: int) -> str:
    """The commit of HEAD; empty if there is no commit yet, or if HEAD is not the name of a
    commit."""
    found = _head(git_dir)
    return found if _COMMIT.fullmatch(found) else ""


def _head(git_dir: int) -> str:
    head = _read_text(git_dir, "HEAD").strip()
    branch = head.removeprefix("ref: ")
    if branch == head:
        return head
    if ".." in branch.split("/") or branch.startswith("/"):
        return ""
    if found := _read_text(git_dir, branch).strip():
        return found
    packed = _read_text(git_dir, "packed-refs").splitlines()
    return next((line.split(" ")[0] for line in packed if line.endswith(f" {branch}")), "")


def _drop_packed_stash(target: int) -> None:
    """Remove the stash from the copied `packed-refs`. `git gc` writes the stash to this file."""
    try:
        old = os.open("packed-refs", REGULAR, dir_fd=target)
    except FileNotFoundError:
        return
    new = os.open("packed-refs.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=target)
    with os.fdopen(old, "rb") as lines, os.fdopen(new, "wb") as kept:
        kept.writelines(line for line in lines if not line.endswith(b" refs/stash\n"))
    os.rename("packed-refs.new", "packed-refs", src_dir_fd=target, dst_dir_fd=target)


class _RepositoryCopier:
    def __init__(self, copier: FileCopier, count: EntryCount) -> None:
        self._copier = copier
        self._count = count

    def shared_indexes(self, source: int) -> list[str]:
        """The second parts of a split index."""
        names = [each.name for each in scan_directory(source, self._count)]
        return [name for name in names if name.startswith("sharedindex.")]

    def copy_below(self, parent: int, name: str, target: int, depth: int = 0) -> None:
        """Copy directories and regular files. Other kinds of files are skipped, because git has
        none in a repository."""
        if depth > _MAX_DEPTH:
            raise CannotCopyRepository(
                f"its .git has directories below more than {_MAX_DEPTH} others"
            )
        source = os.open(name, DIRECTORY, dir_fd=parent)
        try:
            os.mkdir(name, dir_fd=target)
            with opened_below(target, name) as created:
                # `git gc` writes a new pack before it removes the files that the pack replaces. So
                # after a file vanished, its replacement is in the next listing.
                for _ in range(_MAX_TRIES):
                    if self._copy_entries(source, name, created, depth):
                        break
        finally:
            os.close(source)

    def _copy_entries(self, source: int, name: str, created: int, depth: int) -> bool:
        """Copy the entries that are not copied yet. False if an entry was removed meanwhile."""
        is_complete = True
        entries = scan_directory(source, self._count)
        for entry in sorted(entries, key=lambda entry: entry.name == _PACKS):
            if _exists(created, entry.name):
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    self.copy_below(source, entry.name, created, depth + 1)
                elif entry.is_file(follow_symlinks=False) and not _is_left_out(
                    name, entry.name, depth
                ):
                    self._copier.copy(source, entry.name, created)
            except FileNotFoundError:
                is_complete = False
        return is_complete


def _is_left_out(directory: str, name: str, depth: int) -> bool:
    """Whether a file is not copied: the stash, or a leftover of an interrupted git command."""
    is_stash = depth == 0 and directory == "refs" and name == _STASH
    return is_stash or name.endswith(".lock") or name.startswith(("tmp_obj_", "tmp_pack_"))


def _new_config(source: int) -> str:
    """The text of the new `config`: the settings of the source that are in `_KEPT_SETTINGS`.
    Includes are not followed."""
    version, kept, section = "0", dict[tuple[str, str], str](), ""
    extensions: dict[str, str] = {}
    for line in _read_text(source, "config").splitlines():
        if found := _SECTION.match(line):
            section, line = found[1].lower(), line[found.end() :]
        variable = _VARIABLE.fullmatch(line)
        if variable is None or "\\" in line or variable[2].count('"') not in (0, 2):
            continue
        name, value = variable[1].lower(), variable[2]
        if section == "extensions":
            extensions[name] = value
        elif (section, name) == ("core", "repositoryformatversion"):
            version = value
        elif name in _KEPT_SETTINGS.get(section, ()):
            kept[section, name] = value
    return _config_text(version, extensions, kept)


def _config_text(version: str, extensions: dict[str, str], kept: dict[tuple[str, str], str]) -> str:
    unknown = extensions.keys() - {"objectformat", "worktreeconfig", "preciousobjects"}
    if version not in ("0", "1") or unknown:
        named = ", ".join(sorted(unknown)) or f"version {version}"
        raise CannotCopyRepository(f"its git repository has an unknown format ({named})")
    lines = ["[core]", f"\trepositoryformatversion = {version}", "\tbare = false"]
    lines += ["\tlogallrefupdates = true", "\thooksPath = /dev/null"]
    lines += [f"\t{name} = {value}" for (section, name), value in kept.items() if section == "core"]
    if "objectformat" in extensions:
        lines += ["[extensions]", f"\tobjectFormat = {extensions['objectformat']}"]
    lines += ["[user]"]
    lines += [f"\t{name} = {value}" for (section, name), value in kept.items() if section == "user"]
    return "\n".join(lines) + "\n"


def _read_text(directory: int, name: str) -> str:
    above, _, last = name.rpartition("/")
    try:
        with opened_below(directory, above) as opened:
            descriptor = os.open(last, REGULAR, dir_fd=opened)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return ""
            return file.read(_SMALL).decode("utf-8", "replace")
    except OSError:
        return ""


def _exists(directory: int, name: str) -> bool:
    above, _, last = name.rpartition("/")
    try:
        with opened_below(directory, above) as opened:
            os.stat(last, dir_fd=opened, follow_symlinks=False)
    except OSError:
        return False
    return True
