"""Where paths lead, and that nothing leads out of the roots."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bascule.core.actions import (
    FileEdit,
    FileRead,
    FileWrite,
    Glob,
    Grep,
    ListDir,
    MakeDir,
    Remove,
    RemoveDir,
)
from bascule.core.errors import (
    BasculeError,
    InvalidPath,
    IsADirectory,
    NoSuchPath,
    PathOutsideRoots,
)
from bascule.sandbox.files.editor import FileEditor
from bascule.sandbox.files.files import SandboxFiles
from bascule.sandbox.files.paths import Paths
from bascule.sandbox.files.search import Search
from bascule.sandbox.files.storage import Storage


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a secret beside it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret\n")
    (tmp_path / "root-sibling").mkdir()
    (tmp_path / "root-sibling" / "secret.txt").write_text("secret\n")
    inside = tmp_path / "root"
    inside.mkdir()
    (inside / "file.txt").write_text("inside\n")
    return inside


@pytest.fixture
def confined(root: Path) -> Storage:
    return Storage(Paths([root]))


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 300, "a/" * 3000, "\ud800"])
def test_an_impossible_path_is_invalid(tmp_path: Path, path: str) -> None:
    with pytest.raises(InvalidPath):
        SandboxFiles(Storage(Paths())).write(FileWrite(path, "x"), str(tmp_path))


def test_a_relative_path_starts_from_the_shells_directory(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()

    SandboxFiles(Storage(Paths())).write(FileWrite("a.txt", "x"), str(tmp_path / "here"))

    assert (tmp_path / "here" / "a.txt").read_text() == "x\n"


def test_a_relative_path_that_leads_outside_is_reported_with_its_base(
    root: Path, confined: Storage
) -> None:
    elsewhere = str(root.parent / "outside")
    for path in ("secret.txt", "no/such"):
        with pytest.raises(PathOutsideRoots, match=rf"'{path}' was taken from {elsewhere}, where"):
            SandboxFiles(confined).read(FileRead(path), elsewhere)
    with pytest.raises(PathOutsideRoots) as absolute:
        SandboxFiles(confined).read(FileRead(f"{elsewhere}/secret.txt"), str(root))
    assert "taken from" not in absolute.value.message


def test_a_path_without_a_final_name_is_a_directory(tmp_path: Path) -> None:
    paths = Paths()
    for path in ("/", f"{tmp_path}/.."):
        with pytest.raises(IsADirectory), paths.pin(path, "/"):
            pass
        with pytest.raises(InvalidPath), paths.pin(path, "/", follow=False):
            pass


def test_every_path_to_a_file_gives_the_same_lock_key(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "c").symlink_to("b/file")
    paths = Paths()
    keys = set()
    for path in ("a/file", "b/file", "c", "a/../b/file", str(tmp_path / "a" / "file")):
        with paths.pin(path, str(tmp_path)) as pinned:
            keys.add(pinned.key)

    assert len(keys) == 1


def test_symlink_loops_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    with pytest.raises(InvalidPath):
        SandboxFiles(Storage(Paths())).read(FileRead("a"), str(tmp_path))


def test_resolve_gives_the_real_path(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").touch()
    (tmp_path / "b").symlink_to("a")
    paths = Paths()

    assert paths.resolve("b/file", str(tmp_path)) == tmp_path / "a" / "file"
    assert paths.resolve("b", str(tmp_path)) == tmp_path / "a"
    assert paths.resolve("b/new", str(tmp_path)) == tmp_path / "a" / "new"


ESCAPES: dict[str, Callable[[Path], str]] = {
    "absolute": lambda root: str(root.parent / "outside" / "secret.txt"),
    "dotdot": lambda root: "../outside/secret.txt",
    "sibling whose name starts alike": lambda root: "../root-sibling/secret.txt",
    "link to a file": lambda root: "to-file",
    "link to a directory": lambda root: "to-directory/secret.txt",
    "link to a link": lambda root: "to-link",
    "dotdot behind a link": lambda root: "to-inside/../../outside/secret.txt",
    "through proc": lambda root: f"/proc/self/root{root.parent}/outside/secret.txt",
    "not there": lambda root: str(root.parent / "outside" / "nothing" / "at" / "all"),
    "system": lambda root: "/etc/passwd",
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES.keys())
def test_no_path_leads_out_of_the_roots(
    root: Path, confined: Storage, escape: Callable[[Path], str]
) -> None:
    (root / "to-file").symlink_to("../outside/secret.txt")
    (root / "to-directory").symlink_to(root.parent / "outside")
    (root / "to-link").symlink_to("to-file")
    (root / "deep").mkdir()
    (root / "to-inside").symlink_to("deep")
    files, editor, cwd, path = SandboxFiles(confined), FileEditor(confined), str(root), escape(root)
    search = Search(confined.paths, ripgrep=None)

    for attempt in (
        lambda: files.read(FileRead(path), cwd),
        lambda: files.write(FileWrite(path, "mine"), cwd),
        lambda: files.list_dir(ListDir(os.path.dirname(path)), cwd),
        lambda: search.grep(Grep("secret", path=os.path.dirname(path)), cwd),
        lambda: search.glob(Glob("*", path=os.path.dirname(path)), cwd),
    ):
        if os.path.dirname(path):
            with pytest.raises(PathOutsideRoots):
                attempt()
    if not path.startswith("to-") or "/" in path:  # removing a link removes the link
        with pytest.raises(PathOutsideRoots):
            files.remove(Remove(path), cwd)
        with pytest.raises(PathOutsideRoots):
            files.remove_dir(RemoveDir(path, recursive=True), cwd)
        with pytest.raises(PathOutsideRoots):
            files.make_dir(MakeDir(f"{path}.d/e"), cwd)
    for command in ("view", "create", "str_replace", "insert", "undo_edit"):
        edited = editor.edit(
            FileEdit(
                path,
                command=command,
                file_text="mine",
                old_str="secret",
                new_str="mine",
                insert_line=0,
            ),
            cwd,
        )
        assert edited.content.startswith("ERROR:\n")
        assert "is outside the allowed directories" in edited.content
    assert files.list_names(os.path.dirname(path) or "to-directory", cwd) == []
    assert (root.parent / "outside" / "secret.txt").read_text() == "secret\n"
    assert os.listdir(root.parent / "outside") == ["secret.txt"]


def test_a_link_that_stays_inside_is_followed(root: Path, confined: Storage) -> None:
    (root / "link").symlink_to(root / "file.txt")

    assert SandboxFiles(confined).read(FileRead("link"), str(root)).content == "inside\n"


def test_a_symlink_from_outside_into_a_root_is_accepted(root: Path, confined: Storage) -> None:
    (root.parent / "door").symlink_to(root)

    content = SandboxFiles(confined).read(FileRead(str(root.parent / "door" / "file.txt")), "/")

    assert content.content == "inside\n"


def test_the_root_itself_can_be_listed_but_not_removed(root: Path, confined: Storage) -> None:
    files = SandboxFiles(confined)

    assert files.list_names(".", str(root)) == ["file.txt"]
    assert not files.make_dir(MakeDir(str(root)), "/").created
    with pytest.raises(IsADirectory):
        files.read(FileRead(str(root)), "/")
    with pytest.raises(PathOutsideRoots):
        files.remove_dir(RemoveDir(str(root), recursive=True), "/")


def test_a_missing_path_inside_a_root_is_reported_as_missing(root: Path, confined: Storage) -> None:
    with pytest.raises(NoSuchPath):
        SandboxFiles(confined).read(FileRead("nothing/here.txt"), str(root))


@pytest.mark.slow
def test_swapping_a_directory_for_a_symlink_never_opens_outside_files(
    root: Path, confined: Storage
) -> None:
    """A directory that turns into a link to the outside and back while it is being used."""
    files, search = SandboxFiles(confined), Search(confined.paths, ripgrep=None)
    outside = root.parent / "outside"
    (outside / "page.txt").write_text("secret\n")
    (root / "current").mkdir()
    (root / "current" / "page.txt").write_text("inside\n")
    (root / "leak").symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            _exchange(root / "current", root / "leak")

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen: list[str] = []
    try:
        for turn in range(1500):
            try:
                seen.append(files.read(FileRead("current/page.txt"), str(root)).content)
            except BasculeError:
                seen.append("refused")
            for attempt in (
                lambda: files.write(FileWrite("current/mine.txt", "mine"), str(root)),
                lambda: files.remove(Remove("current/secret.txt"), str(root)),
                lambda: files.make_dir(MakeDir("current/made/deep"), str(root)),
                lambda: files.remove_dir(RemoveDir("current/made", recursive=True), str(root)),
            ):
                try:
                    attempt()
                except BasculeError:
                    continue
            if turn % 100 == 0:
                found = search.glob(Glob("**/*"), str(root)).content
                assert "secret.txt" not in found
    finally:
        stop.set()
        swapper.join()

    assert set(seen) == {"inside\n", "refused"}
    assert sorted(os.listdir(outside)) == ["page.txt", "secret.txt"]


def _exchange(one: Path, other: Path) -> None:
    """Swap two names at once, so that neither is ever missing."""
    libc = ctypes.CDLL(None, use_errno=True)
    here, exchange = -100, 2
    if libc.renameat2(here, bytes(one), here, bytes(other), exchange):
        raise OSError(ctypes.get_errno(), "renameat2")
