"""Whole versions of files: never half of one, and the file stays what it was otherwise."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bascule.core.errors import (
    EditConflict,
    FileTooLarge,
    InvalidPath,
    IsADirectory,
    PathExists,
    PermissionRefused,
    StorageFailed,
)
from bascule.sandbox.files.paths import FileOwner, Paths, failure
from bascule.sandbox.files.storage import Storage

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to change owners")
NOBODY = 65534


@pytest.fixture
def storage() -> Storage:
    return Storage(Paths())


@pytest.fixture
def common() -> Iterator[Path]:
    """A directory that other users can reach, which pytest's own are not."""
    made = Path(tempfile.mkdtemp(prefix="bascule-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def replace(storage: Storage, path: Path, content: bytes) -> None:
    with storage.paths.pin(str(path), "/") as pinned:
        storage.replace(pinned, content)


@contextmanager
def as_nobody() -> Iterator[None]:
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def test_a_new_file_gets_the_mode_that_the_umask_leaves(tmp_path: Path, storage: Storage) -> None:
    before = os.umask(0o027)
    try:
        replace(storage, tmp_path / "new", b"x")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o666, 0o4755])
def test_a_replaced_file_keeps_its_mode(tmp_path: Path, storage: Storage, mode: int) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"old")
    file.chmod(mode)

    replace(storage, file, b"new")

    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_a_replaced_file_keeps_its_attributes(tmp_path: Path, storage: Storage) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"old")
    try:
        os.setxattr(file, "user.note", b"kept")
    except OSError as error:
        pytest.skip(f"the file system of {tmp_path} takes no attributes: {error}")

    replace(storage, file, b"new")

    assert os.getxattr(file, "user.note") == b"kept"


@needs_root
def test_a_replaced_file_keeps_its_owner(tmp_path: Path, storage: Storage) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"old")
    os.chown(file, 1234, 5678)
    file.chmod(0o4750)

    replace(storage, file, b"new")

    found = file.stat()
    assert (found.st_uid, found.st_gid) == (1234, 5678)
    assert stat.S_IMODE(found.st_mode) == 0o4750


@needs_root
def test_new_files_and_directories_get_the_given_owner(tmp_path: Path) -> None:
    storage = Storage(Paths(owner=FileOwner(1234, 5678)))
    with storage.paths.pin("a/b/c.txt", str(tmp_path), make_parents=True) as pinned:
        storage.replace(pinned, b"x")

    for made in ("a", "a/b", "a/b/c.txt"):
        found = (tmp_path / made).stat()
        assert (found.st_uid, found.st_gid) == (1234, 5678)


def test_writing_to_a_symlink_changes_its_target(tmp_path: Path, storage: Storage) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("made")

    replace(storage, tmp_path / "link", b"new")
    replace(storage, tmp_path / "dangling", b"fresh")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert (tmp_path / "dangling").is_symlink()
    assert (tmp_path / "made").read_bytes() == b"fresh"


@pytest.mark.parametrize("content", [b"", b"short", b"longer than it was before"])
def test_hard_links_stay_linked_after_a_write(
    tmp_path: Path, storage: Storage, content: bytes
) -> None:
    (tmp_path / "one").write_bytes(b"the old content")
    os.link(tmp_path / "one", tmp_path / "two")

    replace(storage, tmp_path / "one", content)

    assert (tmp_path / "two").read_bytes() == content
    assert (tmp_path / "two").stat().st_nlink == 2


@needs_root
def test_a_writable_file_of_another_user_keeps_its_owner(common: Path, storage: Storage) -> None:
    file = common / "f"
    file.write_bytes(b"old")
    file.chmod(0o666)
    common.chmod(0o777)

    with as_nobody():
        replace(storage, file, b"new")

    assert file.read_bytes() == b"new"
    assert file.stat().st_uid == 0


@needs_root
def test_a_file_in_a_read_only_directory_is_still_written(common: Path, storage: Storage) -> None:
    file = common / "f"
    file.write_bytes(b"old")
    os.chown(file, NOBODY, NOBODY)

    with as_nobody():
        replace(storage, file, b"new and longer")

    assert file.read_bytes() == b"new and longer"


@needs_root
def test_an_unwritable_file_is_reported_and_left_unchanged(common: Path, storage: Storage) -> None:
    file = common / "f"
    file.write_bytes(b"old")
    file.chmod(0o444)
    os.chown(file, NOBODY, NOBODY)
    common.chmod(0o777)

    (common / "closed").mkdir(mode=0o755)

    with as_nobody():
        for path in (file, common / "closed" / "new"):
            with pytest.raises(PermissionRefused):
                replace(storage, path, b"new")

    assert file.read_bytes() == b"old"
    assert sorted(os.listdir(common)) == ["closed", "f"]


def test_a_running_program_file_can_be_replaced(tmp_path: Path, storage: Storage) -> None:
    program = tmp_path / "sleep"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    os.link(program, tmp_path / "other name")
    running = subprocess.Popen([program, "60"])
    try:
        replace(storage, program, b"new")
        assert program.read_bytes() == b"new"
        assert os.access(program, os.X_OK)
    finally:
        running.kill()
        running.wait()


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (os.mkfifo, InvalidPath),
        (os.mkdir, IsADirectory),
    ],
)
def test_special_files_are_rejected_without_blocking(
    tmp_path: Path, storage: Storage, make: object, refusal: type[Exception]
) -> None:
    assert callable(make)
    make(tmp_path / "f")

    with pytest.raises(refusal):
        replace(storage, tmp_path / "f", b"x")
    with pytest.raises(refusal), storage.paths.pin(str(tmp_path / "f"), "/") as pinned:
        storage.load(pinned, limit=10, advice="")


def test_a_file_past_the_size_limit_is_rejected_with_advice(
    tmp_path: Path, storage: Storage
) -> None:
    (tmp_path / "f").write_bytes(b"x" * 11)

    with (
        pytest.raises(FileTooLarge, match=r"11 bytes.*limit of 10.* Go round"),
        storage.paths.pin(str(tmp_path / "f"), "/") as pinned,
    ):
        storage.load(pinned, limit=10, advice="Go round")


def test_a_file_with_a_reported_size_of_zero_is_read_completely(storage: Storage) -> None:
    with storage.paths.pin("/proc/self/status", "/") as pinned:
        assert storage.load(pinned, limit=1 << 20, advice="").data.startswith(b"Name:")


def test_a_version_that_is_no_longer_there_is_not_replaced(
    tmp_path: Path, storage: Storage
) -> None:
    file = tmp_path / "f"

    def change_in_place() -> None:
        file.write_bytes(b"new")

    def put_another_there() -> None:
        (tmp_path / "other").write_bytes(b"old")
        (tmp_path / "other").rename(file)

    for change in (change_in_place, file.unlink, put_another_there):
        file.write_bytes(b"old")
        with storage.paths.pin(str(file), "/") as pinned:
            version = storage.load(pinned, limit=100, advice="")
            change()
            with pytest.raises(EditConflict):
                storage.replace(pinned, b"mine", over=version)

    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_creating_a_new_file_does_not_replace_an_existing_one(
    tmp_path: Path, storage: Storage
) -> None:
    with storage.paths.pin(str(tmp_path / "f"), "/") as pinned:
        storage.replace(pinned, b"first", must_be_new=True)
        with pytest.raises(PathExists):
            storage.replace(pinned, b"second", must_be_new=True)

    assert (tmp_path / "f").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["f"]


def test_a_failed_write_keeps_the_old_file_and_no_temporary_file(
    tmp_path: Path, storage: Storage
) -> None:
    (tmp_path / "f").write_bytes(b"old")

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise EOFError("the sender went away")

    with (
        pytest.raises(EOFError),
        storage.paths.pin(str(tmp_path / "f"), "/") as pinned,
    ):
        storage.replace(pinned, broken())

    assert (tmp_path / "f").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.slow
def test_readers_and_writers_only_ever_see_whole_versions(tmp_path: Path, storage: Storage) -> None:
    file = tmp_path / "f"
    size = 200_000
    replace(storage, file, b"0" * size)
    torn: list[bytes] = []

    def write(mark: bytes) -> None:
        for _ in range(60):
            replace(storage, file, mark * size)

    def read() -> None:
        for _ in range(300):
            data = file.read_bytes()
            if len(data) != size or len(set(data)) != 1:
                torn.append(data)

    threads = [threading.Thread(target=write, args=(mark,)) for mark in (b"1", b"2")]
    threads += [threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert torn == []
    assert file.read_bytes() in (b"1" * size, b"2" * size)
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.slow
def test_two_writers_through_different_hard_links_leave_one_whole_version(
    tmp_path: Path, storage: Storage
) -> None:
    size = 300_000
    (tmp_path / "one").write_bytes(b"")
    os.link(tmp_path / "one", tmp_path / "two")

    def write(name: str, mark: bytes) -> None:
        for turn in range(40):
            replace(storage, tmp_path / name, mark * (size + turn))

    threads = [
        threading.Thread(target=write, args=("one", b"1")),
        threading.Thread(target=write, args=("two", b"2")),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    data = (tmp_path / "one").read_bytes()
    assert len(set(data)) == 1
    assert len(data) == size + 39


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    where = tmp_path / "disk"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", where], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield where
    subprocess.run(["umount", where], check=True)


@pytest.mark.parametrize("linked", [False, True], ids=["replaced", "in place"])
def test_a_full_disk_keeps_the_old_file(tiny_disk: Path, storage: Storage, linked: bool) -> None:
    file = tiny_disk / "f"
    file.write_bytes(b"old" * 1000)
    if linked:
        os.link(file, tiny_disk / "other")
    names = sorted(os.listdir(tiny_disk))

    with pytest.raises(StorageFailed, match="no space left"):
        replace(storage, file, b"new" * 200_000)

    assert file.read_bytes() == b"old" * 1000
    assert sorted(os.listdir(tiny_disk)) == names


def test_a_file_that_is_mounted_is_rewritten_in_place(tmp_path: Path, storage: Storage) -> None:
    """As containers have it with /etc/hosts: no rename can replace a mount point."""
    (tmp_path / "source").write_bytes(b"old")
    target = tmp_path / "target"
    target.touch()
    mounted = subprocess.run(
        ["mount", "--bind", tmp_path / "source", target], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.strip()}")
    try:
        replace(storage, target, b"new")
        assert target.read_bytes() == (tmp_path / "source").read_bytes() == b"new"
    finally:
        subprocess.run(["umount", target], check=True)

    assert sorted(os.listdir(tmp_path)) == ["source", "target"]


def test_a_read_only_disk_is_named(tiny_disk: Path, storage: Storage) -> None:
    (tiny_disk / "f").write_bytes(b"old")
    subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=True)

    for name in ("f", "new"):
        with pytest.raises(StorageFailed, match="read-only"):
            replace(storage, tiny_disk / name, b"new")


def test_storage_leaves_no_descriptor_open(tmp_path: Path) -> None:
    """Counted in a process of its own, where nobody else opens anything."""
    script = """
import os, sys
from bascule.core.errors import BasculeError
from bascule.sandbox.files.paths import Paths
from bascule.sandbox.files.storage import Storage
root = sys.argv[1]
storage = Storage(Paths([root]))
def once():
    for path in ("f", "a/b/f", "../x", "f/x", "link", "loop"):
        try:
            with storage.paths.pin(path, root, make_parents=True) as pinned:
                storage.replace(pinned, b"x")
                storage.load(pinned, limit=10, advice="")
        except BasculeError:
            pass
os.symlink("f", root + "/link"); os.symlink("loop", root + "/loop")
once()
before = len(os.listdir("/proc/self/fd"))
once()
print(len(os.listdir("/proc/self/fd")) - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True
    )

    assert done.stdout == "0\n"


def test_os_errors_become_bascule_errors() -> None:
    full = failure(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "/f")

    assert isinstance(full, StorageFailed)
    assert full.message == "/f: no space left on device"
