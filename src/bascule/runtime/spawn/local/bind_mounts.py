"""Bind mounts held as file descriptors, optionally with their files mapped to another owner.

The warden opens a directory step by step (`safe_open`) and clones its mount. From then on nobody
can replace the directory, because no path is looked up again. An id-mapped mount (Linux 5.12) shows
the files of one UID as those of another, in both directions: a session that runs as a leased UID
reads and writes a folder of another user, and the files that it creates belong to that user on
disk.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# These three system calls have the same number on every architecture.
_SYS_OPEN_TREE: Final = 428
_SYS_MOVE_MOUNT: Final = 429
_SYS_MOUNT_SETATTR: Final = 442
_OPEN_TREE_CLONE: Final = 1
_AT_EMPTY_PATH: Final = 0x1000
_AT_RECURSIVE: Final = 0x8000
_AT_FDCWD: Final = -100
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4
_MOUNT_ATTR_IDMAP: Final = 0x00100000
_MOUNT_ATTR_READ_ONLY: Final = 0x7
"""Read-only, without devices and set-ID bits."""
_MOUNT_ATTR_NOEXEC: Final = 0x8
_CLONE_NEWNS: Final = 0x00020000
_MS_RDONLY: Final = 0x1
_MS_NOSUID: Final = 0x2
_MS_NODEV: Final = 0x4
_MS_NOEXEC: Final = 0x8
_MS_REC: Final = 0x4000
_MS_PRIVATE: Final = 1 << 18
_MS_SLAVE: Final = 1 << 19
_MNT_DETACH: Final = 2
_NO_ID: Final = 2**32 - 1
"""The highest number, which is not a valid UID: the end of every range."""

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = [
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    ]


@dataclass(frozen=True, slots=True)
class MountOwner:
    uid: int
    gid: int


def clone(
    source: int,
    *,
    owner: MountOwner | None = None,
    shown_as: MountOwner | None = None,
    read_only: bool = False,
    executable: bool = False,
) -> int:
    """A descriptor of a detached mount of `source` and the mounts below it.

    Closing the descriptor before the mount is attached removes the mount. Blocks the calling
    thread.

    `owner`, `shown_as`: show files of `owner` as files of `shown_as`. Raises `OSError` if the
    kernel or one of the file systems has no id-mapped mounts. `executable`: files in a read-only
    mount can be executed.
    """
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | _AT_RECURSIVE
    tree = _syscall(_SYS_OPEN_TREE, source, b"", flags)
    try:
        # Private: later mounts on the host or in the clone do not propagate to the other side.
        attributes = _MountAttributes(propagation=_MS_PRIVATE)
        if read_only:
            attributes.set = _MOUNT_ATTR_READ_ONLY | (0 if executable else _MOUNT_ATTR_NOEXEC)
        with contextlib.ExitStack() as stack:
            if owner is not None and shown_as is not None and owner != shown_as:
                attributes.set |= _MOUNT_ATTR_IDMAP
                attributes.user_namespace = stack.enter_context(_id_map(owner, shown_as))
            _syscall(
                *(_SYS_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH | _AT_RECURSIVE),
                *(ctypes.byref(attributes), ctypes.sizeof(attributes)),
            )
    except BaseException:
        os.close(tree)
        raise
    return tree


def open_stage(stage: Path) -> None:
    """Give the calling process its own mount namespace, with an empty file system at `stage`.

    Only this process and its forks see mounts below `stage`. So a program that gets these paths
    finds exactly these mounts.
    """
    _new_namespace()
    mount_tmpfs(stage, mode=0o700)


def attach_all(trees: Mapping[str, int], stage: Path) -> None:
    """Attach each mount at its name below `stage`, in a private mount namespace."""
    _new_namespace()
    for name, tree in trees.items():
        make_target(tree, stage / name)
        attach(tree, stage / name)


def make_target(tree: int, path: Path) -> None:
    """Create the directory or file that the mount `tree` needs as its mount point."""
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        path.mkdir(exist_ok=True)
    else:
        path.touch()


def attach(tree: int, path: Path) -> None:
    _syscall(
        *(_SYS_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(path)),
        _MOVE_MOUNT_F_EMPTY_PATH,
    )


def mount_empty(path: Path) -> None:
    """Mount an empty read-only directory at `path`."""
    flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _mount_tmpfs(path, flags, "mode=0555,size=4k")


def mount_tmpfs(path: Path, *, mode: int) -> None:
    """Mount an empty file system in memory, for mount points."""
    _mount_tmpfs(path, _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, f"mode={mode:o}")


def unmount(path: Path) -> None:
    """Detach the mount at `path` and the mounts below it. Copies in other namespaces stay."""
    _check(_libc.umount2(os.fsencode(path), _MNT_DETACH), str(path))


def id_map_lines(inside: int, outside: int) -> Sequence[str]:
    """Lines of a `uid_map`: id `inside` maps to `outside`, and all others to themselves."""
    low, high = sorted((inside, outside))
    others = ((0, low), (low + 1, high), (high + 1, _NO_ID))
    lines = [f"{first} {first} {end - first}" for first, end in others if end > first]
    return [*lines, f"{inside} {outside} 1"]


@contextlib.contextmanager
def _id_map(owner: MountOwner, shown_as: MountOwner) -> Iterator[int]:
    """A descriptor of a user namespace with this id map, in which no process runs."""
    unshare = shutil.which("unshare", path="/usr/bin:/bin")
    if unshare is None:
        raise FileNotFoundError("unshare(1) of util-linux is not installed")
    with subprocess.Popen(
        [unshare, "--user", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        try:
            # When `cat` answers, it is inside the namespace.
            os.write(program.stdin.fileno(), b".")
            if not os.read(program.stdout.fileno(), 1):
                raise OSError("a user namespace cannot be created")
            pairs = (("uid_map", owner.uid, shown_as.uid), ("gid_map", owner.gid, shown_as.gid))
            for name, disk_id, shown_id in pairs:
                lines = "".join(f"{line}\n" for line in id_map_lines(disk_id, shown_id))
                Path(f"/proc/{program.pid}/{name}").write_text(lines)
            namespace = os.open(f"/proc/{program.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            program.stdin.close()
    try:
        yield namespace
    finally:
        os.close(namespace)


def _new_namespace() -> None:
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    # Later mounts of the host still appear here; nothing propagates the other way.
    _check(_libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None), "mount")


def _mount_tmpfs(path: Path, flags: int, options: str) -> None:
    target = os.fsencode(path)
    _check(_libc.mount(b"tmpfs", target, b"tmpfs", flags, options.encode()), str(path))


def _syscall(*words: object) -> int:
    result: int = _libc.syscall(*words)
    _check(min(result, 0), "mount")
    return result


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
