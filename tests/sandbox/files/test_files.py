"""Reading, writing and removing files, and listing directories."""

from __future__ import annotations

import base64
import os
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.core.actions import FileRead, FileWrite, ListDir, MakeDir, Remove, RemoveDir
from bascule.core.errors import (
    BinaryFile,
    DirectoryNotEmpty,
    FileTooLarge,
    InvalidRange,
    IsADirectory,
    NoSuchPath,
    NotADirectory,
    PathExists,
    UndecodableFile,
)
from bascule.sandbox.files.files import SandboxFiles
from bascule.sandbox.files.paths import Paths
from bascule.sandbox.files.storage import Storage


@pytest.fixture
def files() -> SandboxFiles:
    return SandboxFiles(Storage(Paths()))


@pytest.fixture
def cwd(tmp_path: Path) -> str:
    return str(tmp_path)


# Reading --------------------------------------------------------------------------------


def test_a_file_is_read_unchanged_and_its_full_path_returned(files: SandboxFiles, cwd: str) -> None:
    Path(cwd, "a.txt").write_bytes("één\r\ntwo\n\n".encode())

    read = files.read(FileRead("a.txt"), cwd)

    assert read.content == "één\r\ntwo\n\n"
    assert read.path == f"{cwd}/a.txt"


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, -1, "one\ntwo\n"),
        (0, 1, "one\n"),
        (1, 2, "two\n"),
        (1, -1, "two\n"),
        (0, 99, "one\ntwo\n"),
        (2, 5, ""),
        (7, -1, ""),
        (1, 1, ""),
    ],
)
def test_line_ranges_start_at_zero_and_exclude_the_end(
    files: SandboxFiles, cwd: str, start: int, end: int, expected: str
) -> None:
    Path(cwd, "f").write_text("one\ntwo\n")

    assert files.read(FileRead("f", start=start, end=end), cwd).content == expected


@pytest.mark.parametrize(("start", "end"), [(-1, -1), (0, -2), (3, 2)])
def test_an_invalid_line_range_is_rejected(
    files: SandboxFiles, cwd: str, start: int, end: int
) -> None:
    Path(cwd, "f").write_text("one\n")

    with pytest.raises(InvalidRange):
        files.read(FileRead("f", start=start, end=end), cwd)
    with pytest.raises(InvalidRange):
        files.write(FileWrite("f", "x", start=start, end=end), cwd)


@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("a.png", "image/png"),
        ("a.JPG", "image/jpeg"),
        ("a.jpeg", "image/jpeg"),
        ("a.bmp", "image/bmp"),
        ("a.gif", "image/gif"),
        ("a.pdf", "application/pdf"),
        ("a.mp4", "video/mp4"),
        ("a.webm", "video/webm"),
        ("a.ogg", "video/ogg"),
    ],
)
@pytest.mark.parametrize("absolute", [False, True])
def test_media_files_are_read_as_data_urls(
    files: SandboxFiles, cwd: str, name: str, type: str, absolute: bool
) -> None:
    data = b"\x89PNG\r\n\0\xff" * 10
    Path(cwd, name).write_bytes(data)

    content = files.read(FileRead(f"{cwd}/{name}" if absolute else name), cwd).content

    head, _, encoded = content.partition(",")
    assert head == f"data:{type};base64"
    assert base64.b64decode(encoded) == data


def test_a_binary_file_is_named_as_clients_expect(files: SandboxFiles, cwd: str) -> None:
    Path(cwd, "a.bin").write_bytes(b"\0\1\2")

    with pytest.raises(BinaryFile) as refused:
        files.read(FileRead("a.bin"), cwd)

    assert refused.value.message == "ERROR_BINARY_FILE"


def test_unreadable_paths_raise_distinct_errors(files: SandboxFiles, cwd: str) -> None:
    Path(cwd, "f").touch()

    with pytest.raises(NoSuchPath, match="File not found"):
        files.read(FileRead("nothing"), cwd)
    with pytest.raises(IsADirectory):
        files.read(FileRead(cwd), "/")
    with pytest.raises(NotADirectory):
        files.read(FileRead("f/inside"), cwd)


def test_only_the_requested_part_of_a_large_file_is_loaded(cwd: str) -> None:
    """A sparse file of a gigabyte: reading all of it would take that much memory."""
    files = SandboxFiles(Storage(Paths()), read_limit=1 << 20)
    with open(f"{cwd}/large", "wb") as file:
        file.write(b"".join(b"line %d\n" % n for n in range(200_000)))
        file.truncate(1 << 30)

    assert files.read(FileRead("large", start=150_000, end=150_002), cwd).content == (
        "line 150000\nline 150001\n"
    )
    with pytest.raises(FileTooLarge, match=r"Ask for a range of lines \(`start`, `end`\)"):
        files.read(FileRead("large"), cwd)
    with pytest.raises(FileTooLarge, match="Ask for fewer"):
        files.read(FileRead("large", start=10), cwd)


def test_a_large_binary_file_is_binary_rather_than_large(cwd: str) -> None:
    files = SandboxFiles(Storage(Paths()), read_limit=100)
    Path(cwd, "a.bin").write_bytes(b"\0" * 101)

    with pytest.raises(BinaryFile):
        files.read(FileRead("a.bin"), cwd)


# Writing --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "stored"),
    [("x", "x\n"), ("x\ny", "x\ny\n"), ("x\n", "x\n"), ("", ""), ("x\r\ny", "x\r\ny\r\n")],
)
def test_the_last_line_of_a_written_file_ends_with_a_newline(
    files: SandboxFiles, cwd: str, content: str, stored: str
) -> None:
    written = files.write(FileWrite("deep/er/f", content), cwd)

    assert Path(cwd, "deep/er/f").read_bytes() == stored.encode()
    assert (written.content, written.path) == ("", f"{cwd}/deep/er/f")


@pytest.mark.parametrize(
    ("start", "end", "content", "expected"),
    [
        (0, -1, "new", "new\n"),
        (1, 2, "new", "one\nnew\nthree\n"),
        (1, 1, "new", "one\nnew\ntwo\nthree\n"),
        (1, -1, "new", "one\nnew\n"),
        (3, -1, "new", "one\ntwo\nthree\nnew\n"),
        (0, 2, "", "three\n"),
        (1, 99, "new\nest", "one\nnew\nest\n"),
    ],
)
def test_lines_of_a_file_are_replaced(
    files: SandboxFiles, cwd: str, start: int, end: int, content: str, expected: str
) -> None:
    Path(cwd, "f").write_text("one\ntwo\nthree\n")

    files.write(FileWrite("f", content, start=start, end=end), cwd)

    assert Path(cwd, "f").read_text() == expected


def test_lines_added_after_a_missing_final_newline_start_on_their_own_line(
    files: SandboxFiles, cwd: str
) -> None:
    Path(cwd, "f").write_text("one\ntwo")

    files.write(FileWrite("f", "three", start=2), cwd)

    assert Path(cwd, "f").read_text() == "one\ntwo\nthree\n"


def test_lines_past_the_end_cannot_be_replaced(files: SandboxFiles, cwd: str) -> None:
    Path(cwd, "f").write_text("one\n")

    with pytest.raises(InvalidRange, match="has 1 lines"):
        files.write(FileWrite("f", "x", start=5), cwd)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("part", [False, True])
def test_a_file_keeps_its_encoding_and_its_line_ends(
    files: SandboxFiles, cwd: str, encoding: str, part: bool
) -> None:
    file = Path(cwd, "f")
    file.write_bytes("één\r\ntwo\r\n".encode(encoding))

    if part:
        files.write(FileWrite("f", "drié\nvier", start=1, end=2), cwd)
        expected = "één\r\ndrié\r\nvier\r\n"
    else:
        files.write(FileWrite("f", "drié\nvier"), cwd)
        expected = "drié\r\nvier\r\n"

    assert file.read_bytes() == expected.encode(encoding)


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("content", ["é", "e"])
def test_a_large_file_keeps_an_encoding_that_only_its_end_reveals(
    files: SandboxFiles, cwd: str, newline: bytes, content: str
) -> None:
    file = Path(cwd, "f")
    file.write_bytes(b"plain" + newline * 1_500_000 + b"caf\xe9" + newline)

    files.write(FileWrite("f", content), cwd)

    assert file.read_bytes() == content.encode("cp1252") + newline


def test_a_mixture_of_line_ends_is_written_as_given(files: SandboxFiles, cwd: str) -> None:
    file = Path(cwd, "f")
    file.write_bytes(b"one\r\ntwo\nthree\r\n")

    files.write(FileWrite("f", "2", start=1, end=2), cwd)

    assert file.read_bytes() == b"one\r\n2\nthree\r\n"


def test_text_the_encoding_cannot_hold_is_rejected_and_the_file_kept(
    files: SandboxFiles, cwd: str
) -> None:
    file = Path(cwd, "f")
    file.write_bytes("één\ntwo\n".encode("cp1252"))

    with pytest.raises(UndecodableFile):
        files.write(FileWrite("f", "日本", start=1, end=2), cwd)
    assert file.read_bytes() == "één\ntwo\n".encode("cp1252")

    files.write(FileWrite("f", "日本"), cwd)
    assert file.read_text() == "日本\n"


def test_unencodable_text_is_rejected(files: SandboxFiles, cwd: str) -> None:
    with pytest.raises(UndecodableFile):
        files.write(FileWrite("f", "\ud800"), cwd)

    assert os.listdir(cwd) == []


def test_a_binary_file_can_be_overwritten_only_as_a_whole(files: SandboxFiles, cwd: str) -> None:
    Path(cwd, "f").write_bytes(b"\0\1")

    with pytest.raises(BinaryFile):
        files.write(FileWrite("f", "x", start=1), cwd)
    files.write(FileWrite("f", "x"), cwd)

    assert Path(cwd, "f").read_text() == "x\n"


def test_a_directory_is_not_overwritten_by_a_file(files: SandboxFiles, cwd: str) -> None:
    Path(cwd, "d").mkdir()

    with pytest.raises(IsADirectory):
        files.write(FileWrite("d", "x"), cwd)


@given(
    st.lists(st.sampled_from(["a", "é", "\r\n", "\n"])).map("".join),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
)
def test_writing_back_what_was_read_changes_nothing(content: str, encoding: str) -> None:
    files = SandboxFiles(Storage(Paths()))
    with tempfile.TemporaryDirectory() as cwd:
        data = content.encode(encoding)
        if not content.endswith("\n"):
            data += "\n".encode(encoding)[-1:] if encoding != "utf-16" else b"\n\0"
        Path(cwd, "f").write_bytes(data)

        files.write(FileWrite("f", files.read(FileRead("f"), cwd).content), cwd)

        assert Path(cwd, "f").read_bytes() == data


@pytest.mark.slow
def test_concurrent_replacements_of_different_lines_are_all_applied(
    files: SandboxFiles, cwd: str
) -> None:
    Path(cwd, "f").write_text("".join(f"old {n}\n" for n in range(40)))

    def write(worker: int) -> None:
        for n in range(worker, 40, 4):
            files.write(FileWrite("f", f"new {n}", start=n, end=n + 1), cwd)

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert Path(cwd, "f").read_text() == "".join(f"new {n}\n" for n in range(40))


# Directories and removal ----------------------------------------------------------------


def test_a_directory_is_made_with_its_parents_once(files: SandboxFiles, cwd: str) -> None:
    first = files.make_dir(MakeDir("a/b/c"), cwd)
    second = files.make_dir(MakeDir("a/b/c"), cwd)

    assert (first.created, second.created) == (True, False)
    assert first.path == f"{cwd}/a/b/c"
    assert Path(cwd, "a/b/c").is_dir()


def test_a_directory_is_not_created_in_place_of_a_file(files: SandboxFiles, cwd: str) -> None:
    Path(cwd, "f").touch()
    for path in ("f", "f/g"):
        with pytest.raises(PathExists):
            files.make_dir(MakeDir(path), cwd)


def test_only_an_empty_directory_is_removed_by_default(files: SandboxFiles, cwd: str) -> None:
    files.write(FileWrite("d/e/f", "x"), cwd)

    with pytest.raises(DirectoryNotEmpty, match="recursive"):
        files.remove_dir(RemoveDir("d"), cwd)
    files.remove_dir(RemoveDir("d", recursive=True), cwd)
    with pytest.raises(NoSuchPath):
        files.remove_dir(RemoveDir("d"), cwd)

    assert os.listdir(cwd) == []


def test_removing_a_symlink_keeps_its_target(files: SandboxFiles, cwd: str) -> None:
    files.write(FileWrite("d/f", "x"), cwd)
    Path(cwd, "to-directory").symlink_to("d")
    Path(cwd, "to-file").symlink_to("d/f")

    with pytest.raises(NotADirectory):
        files.remove_dir(RemoveDir("to-directory", recursive=True), cwd)
    files.remove(Remove("to-directory"), cwd)
    files.remove(Remove("to-file"), cwd)

    assert os.listdir(cwd) == ["d"]
    assert os.listdir(f"{cwd}/d") == ["f"]


def test_a_tree_is_removed_without_following_links(files: SandboxFiles, cwd: str) -> None:
    files.write(FileWrite("keep/f", "x"), cwd)
    files.write(FileWrite("d/g", "x"), cwd)
    Path(cwd, "d/link").symlink_to(f"{cwd}/keep")

    files.remove_dir(RemoveDir("d", recursive=True), cwd)

    assert os.listdir(f"{cwd}/keep") == ["f"]


def test_a_file_and_a_directory_are_removed_by_different_actions(
    files: SandboxFiles, cwd: str
) -> None:
    Path(cwd, "d").mkdir()
    Path(cwd, "f").touch()

    with pytest.raises(IsADirectory):
        files.remove(Remove("d"), cwd)
    with pytest.raises(NotADirectory):
        files.remove_dir(RemoveDir("f"), cwd)
    with pytest.raises(NoSuchPath):
        files.remove(Remove("nothing"), cwd)


# Listing --------------------------------------------------------------------------------


@pytest.fixture
def tree(cwd: str) -> str:
    for name in ("src/pkg/a.py", "src/B.txt", "README", "apple", ".hidden/x", "Zoo/y"):
        Path(cwd, name).parent.mkdir(parents=True, exist_ok=True)
        Path(cwd, name).write_text(name)
    Path(cwd, "link").symlink_to("src")
    Path(cwd, "broken").symlink_to("nowhere")
    return cwd


def test_a_listing_has_directories_first_and_the_type_of_each_entry(
    files: SandboxFiles, tree: str
) -> None:
    listing = files.list_dir(ListDir(), tree)

    assert listing.content.split("\n") == [
        ".hidden/", "src/", "Zoo/", "apple", "broken", "link", "README"
    ]  # fmt: skip
    by_path = {entry.path: entry for entry in listing.entries}
    assert by_path["apple"].type == "file"
    assert by_path["apple"].size == 5
    assert by_path["apple"].modified == Path(tree, "apple").stat().st_mtime
    assert by_path["link"].type == by_path["broken"].type == "link"
    assert by_path["src"].type == "directory"
    assert listing.path == tree


def test_a_listing_has_the_requested_depth(files: SandboxFiles, tree: str) -> None:
    listing = files.list_dir(ListDir(depth=3, include_hidden=False), tree)

    assert listing.content.split("\n") == [
        *("src/", "src/pkg/", "src/pkg/a.py", "src/B.txt", "Zoo/", "Zoo/y"),
        *("apple", "broken", "link", "README"),
    ]


def test_a_listing_stops_at_its_limit_and_says_so(files: SandboxFiles, tree: str) -> None:
    listing = files.list_dir(ListDir(limit=2), tree)

    assert [entry.path for entry in listing.entries] == [".hidden", "src"]
    assert listing.truncated
    assert "only the first 2 entries" in listing.content
    assert not files.list_dir(ListDir(limit=7), tree).truncated


def test_a_path_that_cannot_be_listed_is_rejected(files: SandboxFiles, tree: str) -> None:
    with pytest.raises(NotADirectory):
        files.list_dir(ListDir("README"), tree)
    with pytest.raises(NoSuchPath):
        files.list_dir(ListDir("nothing"), tree)
    with pytest.raises(InvalidRange):
        files.list_dir(ListDir(depth=0), tree)


def test_names_are_listed_as_openhands_lists_them(files: SandboxFiles, tree: str) -> None:
    assert files.list_names(".", tree) == [
        *(".hidden/", "link/", "src/", "Zoo/"),
        *("apple", "README"),
    ]
    assert files.list_names("nothing", tree) == []
    assert files.list_names("README", tree) == []
    assert files.list_names("", tree) == []


def test_a_name_that_is_not_utf8_can_be_listed(files: SandboxFiles, cwd: str) -> None:
    Path(os.fsdecode(os.fsencode(cwd) + b"/caf\xe9")).touch()

    assert files.list_names(".", cwd) == ["caf\ufffd"]
    assert files.list_dir(ListDir(), cwd).content == "caf\ufffd"
