"""Files in and out: uploads, downloads, zips, and zips that mean harm."""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import tempfile
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bascule.core.errors import (
    BasculeError,
    InvalidArchive,
    InvalidPath,
    NoSuchPath,
    PathOutsideRoots,
)
from bascule.sandbox.files.contents import UnpackLimits
from bascule.sandbox.files.paths import FileOwner, Paths
from bascule.sandbox.files.storage import Storage
from bascule.sandbox.files.transfers import FileTransfers


@pytest.fixture
def archives() -> FileTransfers:
    return FileTransfers(Storage(Paths()))


def zipped(entries: dict[str, bytes | str]) -> io.BytesIO:
    """A zip of these; a name that ends with `@` is a link."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in entries.items():
            info = zipfile.ZipInfo(name.removesuffix("@"))
            if name.endswith("@"):
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, content)
    return stream


def tree(root: Path) -> dict[str, bytes | str | None]:
    """Everything below: content of files, targets of links (with `@`), None for directories."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[f"{name}@"] = os.readlink(path)
        else:
            found[name] = None if path.is_dir() else path.read_bytes()
    return found


# Downloads ------------------------------------------------------------------------------


def test_a_file_is_downloaded_as_it_is(archives: FileTransfers, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "a.bin").write_bytes(data)

    with archives.download("a.bin", str(tmp_path)) as download:
        assert (download.name, download.size, download.is_zip) == ("a.bin", len(data), False)
        assert b"".join(download) == data


def test_a_directory_is_downloaded_as_a_zip(archives: FileTransfers, tmp_path: Path) -> None:
    source = tmp_path / "project"
    (source / "empty" / "deep").mkdir(parents=True)
    (source / ".hidden").write_bytes(b"h")
    (source / "a.txt").write_bytes(b"a" * 2_500_000)
    (source / "run.sh").write_bytes(b"#!")
    (source / "run.sh").chmod(0o755)
    os.utime(source / "run.sh", (0, 0))
    (source / "to-file").symlink_to("a.txt")
    (source / "to-directory").symlink_to("empty")
    (source / "to-nowhere").symlink_to("nothing")
    (source / "to-outside").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")

    with archives.download(str(source), "/") as download:
        assert (download.name, download.size, download.is_zip) == ("project.zip", None, True)
        archive = zipfile.ZipFile(io.BytesIO(b"".join(download)))

    assert archive.testzip() is None
    assert {info.filename: info.file_size for info in archive.infolist()} == {
        ".hidden": 1,
        "a.txt": 2_500_000,
        "empty/": 0,
        "empty/deep/": 0,
        "run.sh": 2,
        "to-directory": len("empty"),
        "to-file": 2_500_000,
        "to-nowhere": len("nothing"),
        "to-outside": len("/etc/passwd"),
    }
    links = {
        info.filename: archive.read(info)
        for info in archive.infolist()
        if stat.S_ISLNK(info.external_attr >> 16)
    }
    assert links == {
        "to-directory": b"empty",
        "to-nowhere": b"nothing",
        "to-outside": b"/etc/passwd",
    }
    assert stat.S_IMODE(archive.getinfo("run.sh").external_attr >> 16) == 0o755


def test_other_programs_understand_the_zip(archives: FileTransfers, tmp_path: Path) -> None:
    if shutil.which("unzip") is None:
        pytest.skip("unzip is not installed")
    (tmp_path / "in" / "d").mkdir(parents=True)
    (tmp_path / "in" / "d" / "é.txt").write_text("hello")
    with archives.download("in", str(tmp_path)) as download:
        (tmp_path / "out.zip").write_bytes(b"".join(download))

    subprocess.run(["unzip", "-q", "out.zip", "-d", "out"], cwd=tmp_path, check=True)

    assert tree(tmp_path / "out") == tree(tmp_path / "in")


def test_a_file_can_be_downloaded_as_a_zip(archives: FileTransfers, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")

    with archives.download_zip("a.txt", str(tmp_path)) as download:
        assert (download.name, download.is_zip) == ("a.txt.zip", True)
        archive = zipfile.ZipFile(io.BytesIO(b"".join(download)))

    assert archive.read("a.txt") == b"hello"


def test_a_missing_download_path_is_rejected_before_anything_is_sent(
    archives: FileTransfers, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(NoSuchPath):
        archives.download("nothing", str(tmp_path))
    with pytest.raises(InvalidPath):
        archives.download("pipe", str(tmp_path))
    with pytest.raises(PathOutsideRoots):
        FileTransfers(Storage(Paths([tmp_path]))).download("/etc", "/")


def test_creating_a_zip_uses_the_memory_of_one_block(
    archives: FileTransfers, tmp_path: Path
) -> None:
    (tmp_path / "big").mkdir()
    for n in range(3):
        with open(tmp_path / "big" / str(n), "wb") as file:
            file.truncate(20 << 20)
    tracemalloc.start()
    with archives.download("big", str(tmp_path)) as download:
        size = sum(len(piece) for piece in download)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert size > 60 << 20
    assert peak < 8 << 20


def test_an_aborted_download_leaves_no_descriptor_open(
    archives: FileTransfers, tmp_path: Path
) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f").write_bytes(b"x" * 5_000_000)
    before = len(os.listdir("/proc/self/fd"))

    for take in (archives.download, archives.download_zip):
        for path in ("d", "d/e/f"):
            with take(path, str(tmp_path)) as download:
                next(iter(download))
            take(path, str(tmp_path)).close()

    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_grows_is_sent_with_its_original_size(
    archives: FileTransfers, tmp_path: Path
) -> None:
    (tmp_path / "log").write_bytes(b"x" * 10)
    download = archives.download("log", str(tmp_path))
    with open(tmp_path / "log", "ab") as file:
        file.write(b"more")

    assert b"".join(download) == b"x" * 10


# Uploads --------------------------------------------------------------------------------


def test_an_upload_appears_atomically_in_a_newly_created_directory(
    archives: FileTransfers, tmp_path: Path
) -> None:
    path = archives.store(io.BytesIO(b"data" * 1_000_000), "new/dir", "a.bin", str(tmp_path))

    assert path == f"{tmp_path}/new/dir/a.bin"
    assert Path(path).read_bytes() == b"data" * 1_000_000
    assert os.listdir(tmp_path / "new" / "dir") == ["a.bin"]


def test_an_upload_replaces_an_existing_file_and_keeps_its_mode(
    archives: FileTransfers, tmp_path: Path
) -> None:
    (tmp_path / "f").write_text("old")
    (tmp_path / "f").chmod(0o755)

    archives.store(io.BytesIO(b"new"), str(tmp_path), "f", "/")

    assert (tmp_path / "f").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o755


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "/etc/passwd", "a\0b"])
def test_an_upload_with_an_invalid_name_is_rejected(
    archives: FileTransfers, tmp_path: Path, name: str
) -> None:
    with pytest.raises(InvalidPath):
        archives.store(io.BytesIO(b"x"), str(tmp_path), name, "/")

    assert os.listdir(tmp_path) == []


def test_an_aborted_upload_leaves_nothing(archives: FileTransfers, tmp_path: Path) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() > 100:
                raise ConnectionResetError("the sender went away")
            return super().read(101)

    with pytest.raises(BasculeError):
        archives.store(Broken(b"x" * 1000), str(tmp_path), "f", "/")

    assert os.listdir(tmp_path) == []


# Unpacking ------------------------------------------------------------------------------


def test_a_zip_is_unpacked_over_existing_files(archives: FileTransfers, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "old").write_text("stays")
    (tmp_path / "d" / "a").write_text("goes")

    archives.unpack(
        zipped({"d/a": b"new", "d/e/": b"", "f": b"x", "l@": "d/a"}), ".", str(tmp_path)
    )

    assert tree(tmp_path) == {
        "d": None, "d/a": b"new", "d/e": None, "d/old": b"stays", "f": b"x", "l@": "d/a"
    }  # fmt: skip


def test_unpacked_files_keep_their_permissions_but_lose_set_id_bits(
    archives: FileTransfers, tmp_path: Path
) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, mode in {"run": 0o755, "secret": 0o600, "power": 0o4755}.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(info, b"x")

    archives.unpack(stream, str(tmp_path), "/")

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"run": 0o755, "secret": 0o600, "power": 0o755}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to change owners")
def test_unpacked_files_get_the_given_owner(tmp_path: Path) -> None:
    archives = FileTransfers(Storage(Paths(owner=FileOwner(1234, 5678))))

    archives.unpack(zipped({"d/e/f": b"x", "d/l@": "e"}), "new", str(tmp_path))

    for name in ("new", "new/d", "new/d/e", "new/d/e/f", "new/d/l"):
        found = (tmp_path / name).lstat()
        assert (found.st_uid, found.st_gid) == (1234, 5678)


HARMFUL: dict[str, dict[str, bytes | str]] = {
    "climbs": {"../evil": b"x"},
    "climbs inside": {"a/../../evil": b"x"},
    "climbs by backslash": {"..\\evil": b"x"},
    "absolute": {"/tmp/evil": b"x"},
    "absolute link": {"l@": "/etc"},
    "link that climbs": {"d/l@": "../../x"},
    "link that climbs later": {"d/l@": "e/../../../x"},
    "link that climbs through another": {"x/l@": "..", "y@": "x/l/../.."},
    "empty link": {"l@": ""},
    "through its own link": {"l@": "d", "l/evil": b"x"},
    "through its own file": {"f": b"x", "f/g": b"x"},
    "file and directory": {"f": b"x", "f/": b""},
    "too deep": {"d/" * 500 + "f": b"x"},
}


@pytest.mark.parametrize("entries", HARMFUL.values(), ids=HARMFUL.keys())
def test_a_malicious_zip_writes_nothing(
    archives: FileTransfers, tmp_path: Path, entries: dict[str, bytes | str]
) -> None:
    destination = tmp_path / "a" / "b"

    with pytest.raises(InvalidArchive):
        archives.unpack(zipped({"first": b"x", **entries}), str(destination), "/")

    assert tree(tmp_path) == {}


@pytest.mark.parametrize("entry", ["link/f", "file/f", "dir", "link/"])
def test_a_zip_that_would_write_through_existing_entries_is_rejected(
    archives: FileTransfers, tmp_path: Path, entry: str
) -> None:
    (tmp_path / "outside").mkdir()
    destination = tmp_path / "in"
    (destination / "dir").mkdir(parents=True)
    (destination / "link").symlink_to(tmp_path / "outside")
    (destination / "file").touch()
    before = tree(tmp_path)

    with pytest.raises(InvalidArchive):
        archives.unpack(zipped({"a": b"x", entry: b""}), str(destination), "/")

    assert tree(tmp_path) == before


def test_an_existing_symlink_is_replaced_and_not_followed(
    archives: FileTransfers, tmp_path: Path
) -> None:
    (tmp_path / "victim").write_text("safe")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "f").symlink_to("../victim")

    archives.unpack(zipped({"f": b"new"}), "in", str(tmp_path))

    assert tree(tmp_path) == {"in": None, "in/f": b"new", "victim": b"safe"}


def test_a_zip_with_a_duplicate_name_is_rejected(archives: FileTransfers, tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("f", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("f", b"2")

    with pytest.raises(InvalidArchive, match="twice"):
        archives.unpack(stream, str(tmp_path), "/")


@pytest.mark.parametrize("limit", ["entries", "size", "ratio"])
def test_a_zip_past_the_limits_is_rejected_before_unpacking(tmp_path: Path, limit: str) -> None:
    limits = {
        "entries": UnpackLimits(entries=2),
        "size": UnpackLimits(size=100_000),
        "ratio": UnpackLimits(free_size=1000, ratio=50),
    }[limit]
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "abc":
            archive.writestr(name, bytes(100_000))

    with pytest.raises(InvalidArchive):
        FileTransfers(Storage(Paths()), limits=limits).unpack(stream, str(tmp_path), "/")

    assert tree(tmp_path) == {}


def test_a_zip_that_fails_halfway_leaves_nothing(archives: FileTransfers, tmp_path: Path) -> None:
    stream = zipped({"a": b"first", "b": b"second"})
    data = stream.getvalue().replace(b"second", b"seconD")

    with pytest.raises(InvalidArchive, match="broken"):
        archives.unpack(io.BytesIO(data), str(tmp_path), "/")

    assert tree(tmp_path) == {}


@pytest.mark.parametrize("data", [b"", b"no zip", b"PK\x05\x06" + bytes(10)])
def test_a_file_that_is_not_a_zip_is_rejected(
    archives: FileTransfers, tmp_path: Path, data: bytes
) -> None:
    with pytest.raises(InvalidArchive):
        archives.unpack(io.BytesIO(data), str(tmp_path / "new"), "/")

    assert tree(tmp_path) == {}


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_zip_is_unpacked_or_refused_and_never_escapes(data: st.DataObject) -> None:
    good = zipped({"a": b"hello", "d/b": b"x" * 50, "d/l@": "b"}).getvalue()
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as root:
        inside = Path(root, "in")
        inside.mkdir()
        try:
            FileTransfers(Storage(Paths())).unpack(io.BytesIO(damaged), str(inside), "/")
        except BasculeError:
            assert os.listdir(inside) == []
        assert os.listdir(root) == ["in"]


names = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\:"),
    min_size=1,
    max_size=8,
).filter(lambda name: name not in (".", ".."))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.lists(names, min_size=1, max_size=3).map("/".join), st.binary(max_size=200), max_size=6
    )
)
def test_a_zip_round_trip_preserves_files(entries: dict[str, bytes]) -> None:
    archives = FileTransfers(Storage(Paths()))
    with tempfile.TemporaryDirectory() as root:
        (source := Path(root, "source")).mkdir()
        for name, content in entries.items():
            path = source / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue
        Path(root, "copy.zip").write_bytes(b"".join(archives.download("source", root)))
        with open(f"{root}/copy.zip", "rb") as stream:
            archives.unpack(stream, "copy", root)

        assert tree(Path(root, "copy")) == tree(source)


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


def test_a_disk_that_fills_up_leaves_nothing_of_the_zip(
    archives: FileTransfers, tiny_disk: Path
) -> None:
    (tiny_disk / "a").write_text("old")
    stream = zipped({"a": b"new", "b": os.urandom(200_000), "c": os.urandom(200_000)})

    with pytest.raises(BasculeError, match="no space left"):
        archives.unpack(stream, str(tiny_disk), "/")

    assert tree(tiny_disk) == {"a": b"old"}
