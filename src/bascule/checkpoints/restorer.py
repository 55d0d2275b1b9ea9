"""Carries out a restore plan, path by path, without following links.

A file is written to a temporary file and then renamed, so other hard links and readers of the old
file are not affected. Right before the rename the path is checked again. If the path is not as
planned, it is not changed. Only paths of the plan are removed, and directories only if they are
empty.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress

from bascule.core.errors import StorageFailed

from .blobs import write_sparse
from .changes import Conflict, RestorePlan, RestoreStep
from .editor import EditorRefused
from .versions import Content, FileStat, Version
from .walk import open_below

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PARENT_REPLACED = (errno.ELOOP, errno.ENOTDIR)


class _NotAsPlanned(Exception):
    """The path is not as planned, so it is not changed. The message has the reason."""


class Restorer:
    """Restores paths below an open workspace directory."""

    def __init__(
        self,
        root: int,
        read: Callable[[Content], Iterable[bytes]],
        *,
        present: Mapping[str, Version],
        owner: str,
        save: Callable[[str, bytes], bool] | None = None,
        opened: Set[str] = frozenset(),
    ) -> None:
        """`present`: files outside the plan, to which a restored file may be a hard link.

        `owner` is part of the names of temporary files, so that `remove_leftovers` finds them.
        `save` writes the files in `opened` through an editor; see `OpenFileEditor.write`.
        """
        self._save, self._opened = save, opened
        self._root, self._read, self._temporary = root, read, _temporary_name(owner)
        self._restored: list[str] = []
        self._conflicts: list[Conflict] = []
        self._hard_links = {_identity(each): path for path, each in present.items()}

    def apply(self, plan: RestorePlan) -> tuple[Sequence[str], Sequence[Conflict]]:
        """Carry out the plan. Returns the restored paths, and the conflicts found meanwhile."""
        steps = plan.steps
        removals = [each for each in steps if each.current and _changes_kind(each)]
        for step in sorted(removals, key=_depth, reverse=True):
            self._try(step, self._remove)
        refused = {each.path for each in self._conflicts}
        rest = [each for each in steps if each.target is not None and each.path not in refused]
        for step in sorted(rest, key=_depth):
            self._try(step, self._create)
        done = set(self._restored)
        directories = {
            each.path: each.target.stat
            for each in rest
            if each.path in done and each.target is not None and each.target.stat.is_directory
        }
        # The deepest directories first, and after all files: each added entry changes the time of
        # its directory.
        for path in sorted({*directories, *plan.directory_times}, key=_slashes, reverse=True):
            self._finish_directory(path, directories.get(path), plan.directory_times)
        return sorted(done), self._conflicts

    def _try(self, step: RestoreStep, work: Callable[[int, str, RestoreStep], None]) -> None:
        directory, _, name = step.path.rpartition("/")
        try:
            with self._writable(directory) as parent_fd:
                work(parent_fd, name, step)
        except _NotAsPlanned as error:
            self._refuse(step.path, str(error))
        except StorageFailed as error:
            self._refuse(step.path, error.message)
        except OSError as error:
            link = error.errno in _PARENT_REPLACED
            reason = "a link or file is where its directory was" if link else _reason_of(error)
            self._refuse(step.path, reason)
        else:
            if work == self._create or step.target is None:
                self._restored.append(step.path)

    def _refuse(self, path: str, reason: str) -> None:
        self._conflicts.append(Conflict(path, reason))

    def _remove(self, parent_fd: int, name: str, step: RestoreStep) -> None:
        assert step.current is not None
        _ensure_as_planned(parent_fd, name, step.current)
        if not step.current.stat.is_directory:
            os.unlink(name, dir_fd=parent_fd)
            return
        try:
            os.rmdir(name, dir_fd=parent_fd)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            raise _NotAsPlanned("the directory is not empty") from None

    def _create(self, parent_fd: int, name: str, step: RestoreStep) -> None:
        assert step.target is not None
        target = step.target.stat
        current = None if _changes_kind(step) else step.current
        if target.is_directory:
            self._create_directory(parent_fd, name, current)
            return
        if self._save_in_editor(parent_fd, name, step):
            return
        temporary = self._temporary
        times = os.fstat(parent_fd)
        try:
            self._write(parent_fd, temporary, step.target)
            _ensure_as_planned(parent_fd, name, current)
            if current is None:
                # Unlike a rename, a link fails if the path was created meanwhile.
                os.link(
                    temporary,
                    name,
                    src_dir_fd=parent_fd,
                    dst_dir_fd=parent_fd,
                    follow_symlinks=False,
                )
            else:
                os.rename(temporary, name, src_dir_fd=parent_fd, dst_dir_fd=parent_fd)
        except FileExistsError:
            raise _NotAsPlanned("it was changed since") from None
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=parent_fd)
        if current is not None:
            # The directory has the same entries as before, so restore its time too.
            os.utime(parent_fd, ns=(times.st_atime_ns, times.st_mtime_ns))
        self._hard_links[_identity(step.target)] = step.path

    def _save_in_editor(self, parent_fd: int, name: str, step: RestoreStep) -> bool:
        """Write an open file through the editor. False if the file must be written to disk
        instead."""
        current, target = step.current, step.target
        if self._save is None or step.path not in self._opened or current is None or target is None:
            return False
        if not (current.stat.is_file and target.stat.is_file) or current.content == target.content:
            return False
        # An editor writes into the file itself. This fails if the mode forbids it, and it would
        # also change other hard links of the file.
        found = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
        if found.st_nlink > 1 or not found.st_mode & stat.S_IWUSR:
            return False
        _ensure_as_planned(parent_fd, name, current)
        content = b"".join(self._read(target.content))
        try:
            if not self._save(step.path, content):
                return False
        except EditorRefused as error:
            raise _NotAsPlanned(str(error)) from None
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
        with os.fdopen(descriptor, "rb") as file:
            if file.read() != content:
                raise _NotAsPlanned(
                    "the editor changed it while saving, for example by a formatter"
                )
            _set_owner_mode_time(file.fileno(), target.stat)
        return True

    def _create_directory(self, parent_fd: int, name: str, current: Version | None) -> None:
        """Create a directory. `_finish_directory` sets its mode and time after its entries are
        restored."""
        if current is None:
            os.mkdir(name, 0o700, dir_fd=parent_fd)

    def _write(self, parent_fd: int, name: str, version: Version) -> None:
        found = version.stat
        if found.is_link:
            os.symlink(b"".join(self._read(version.content)), os.fsencode(name), dir_fd=parent_fd)
            _set_owner_and_time_of_link(parent_fd, name, found)
        elif found.is_fifo:
            os.mkfifo(name, 0o600, dir_fd=parent_fd)
            with _pinned(parent_fd, name) as path:
                _set_owner_mode_time(path, found)
        elif not self._restore_hard_link(parent_fd, name, version):
            descriptor = os.open(name, _CREATE_FLAGS, 0o600, dir_fd=parent_fd)
            try:
                write_sparse(descriptor, self._read(version.content))
                _set_owner_mode_time(descriptor, found)
            finally:
                os.close(descriptor)

    def _restore_hard_link(self, parent_fd: int, name: str, version: Version) -> bool:
        """Restore a hard link: link to another path that was the same file. Returns whether this
        succeeded."""
        other = self._hard_links.get(_identity(version))
        if other is None:
            return False
        directory, _, other_name = other.rpartition("/")
        try:
            other_fd = open_below(self._root, directory)
        except OSError:
            return False
        try:
            os.link(
                other_name, name, src_dir_fd=other_fd, dst_dir_fd=parent_fd, follow_symlinks=False
            )
            # Check after linking: the other file could be replaced between a check and the link.
            linked = FileStat.of(os.stat(name, dir_fd=parent_fd, follow_symlinks=False))
            if (linked.size, linked.mtime_ns) == (version.stat.size, version.stat.mtime_ns):
                return True
            os.unlink(name, dir_fd=parent_fd)
        except OSError:
            return False
        finally:
            os.close(other_fd)
        return False

    def _finish_directory(
        self, path: str, target: FileStat | None, times: Mapping[str, int]
    ) -> None:
        directory, _, name = path.rpartition("/")
        try:
            parent_fd = open_below(self._root, directory)
            try:
                with _pinned(parent_fd, name) as pinned:
                    if target is not None:
                        _set_owner_mode_time(pinned, target)
                    else:
                        os.utime(pinned, ns=(times[path], times[path]))
            finally:
                os.close(parent_fd)
        except OSError as error:
            self._refuse(path, _reason_of(error))

    @contextmanager
    def _writable(self, directory: str) -> Iterator[int]:
        """Open a directory so that files can be created there, even if its mode forbids this."""
        descriptor = open_below(self._root, directory)
        try:
            found = os.fstat(descriptor)
            mode = stat.S_IMODE(found.st_mode)
            # root needs no permission, and only the owner may change the mode.
            must_change_mode = mode & 0o300 != 0o300 and found.st_uid == os.geteuid() != 0
            if must_change_mode:
                os.fchmod(descriptor, mode | 0o300)
            try:
                yield descriptor
            finally:
                if must_change_mode:
                    os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)


def remove_leftovers(root: int, paths: Iterable[str], owner: str) -> None:
    """Remove the temporary file of a killed restore, in the directories of its `paths`."""
    for directory in {path.rpartition("/")[0] for path in paths}:
        with suppress(OSError):
            parent_fd = open_below(root, directory)
            try:
                os.unlink(_temporary_name(owner), dir_fd=parent_fd)
            finally:
                os.close(parent_fd)


def _temporary_name(owner: str) -> str:
    return f".bascule-{owner}"


def _identity(version: Version) -> Version:
    """A key that is equal for all hard links of one file. It excludes `ctime`, which changes when
    a link is added or removed."""
    return version._replace(stat=version.stat._replace(ctime_ns=0))


def _ensure_as_planned(parent_fd: int, name: str, planned: Version | None) -> None:
    try:
        found = FileStat.of(os.stat(name, dir_fd=parent_fd, follow_symlinks=False))
    except FileNotFoundError:
        found = None
    if planned is None or found is None:
        as_planned = found is None and planned is None
    elif planned.stat.is_directory:  # the restore itself changes its time and size
        as_planned = (found.mode, found.inode) == (planned.stat.mode, planned.stat.inode)
    else:  # `ctime` changes when a hard link is added or removed
        as_planned = found._replace(ctime_ns=0) == planned.stat._replace(ctime_ns=0)
    if not as_planned:
        raise _NotAsPlanned("it was changed since")


@contextmanager
def _pinned(parent_fd: int, name: str) -> Iterator[str]:
    """A path to this directory or pipe that stays valid even if its name is replaced meanwhile."""
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
    try:
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _set_owner_mode_time(file: int | str, target: FileStat) -> None:
    now = os.stat(file)  # noqa: PTH116 -- a path or a descriptor
    if (now.st_uid, now.st_gid) != (target.uid, target.gid):
        with suppress(PermissionError):  # only root may change the owner
            os.chown(file, target.uid, target.gid)
    # After `chown`, which clears set-ID bits.
    os.chmod(file, stat.S_IMODE(target.mode))  # noqa: PTH101 -- a path or a descriptor
    os.utime(file, ns=(target.mtime_ns, target.mtime_ns))


def _set_owner_and_time_of_link(parent_fd: int, name: str, target: FileStat) -> None:
    with suppress(PermissionError):
        os.chown(name, target.uid, target.gid, dir_fd=parent_fd, follow_symlinks=False)
    times = (target.mtime_ns, target.mtime_ns)
    os.utime(name, ns=times, dir_fd=parent_fd, follow_symlinks=False)


def _changes_kind(step: RestoreStep) -> bool:
    """Whether the current file or directory must be removed before the target can be created."""
    assert step.current is not None or step.target is not None
    if step.current is None:
        return False
    if step.target is None:
        return True
    return step.current.stat.is_directory != step.target.stat.is_directory


def _depth(step: RestoreStep) -> tuple[int, str]:
    return _slashes(step.path), step.path


def _slashes(path: str) -> int:
    return path.count("/")


def _reason_of(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
