"""Finding files and lines: one suite, with ripgrep and without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bascule.core.actions import Glob, Grep
from bascule.core.errors import (
    InvalidPattern,
    InvalidRange,
    MissingTool,
    NoSuchPath,
    NotADirectory,
)
from bascule.sandbox.files.linesearch import excerpt
from bascule.sandbox.files.paths import Paths
from bascule.sandbox.files.ripgrep import find_ripgrep
from bascule.sandbox.files.search import Search

RIPGREP = find_ripgrep()


@pytest.fixture(params=["ripgrep", "own"])
def search(request: pytest.FixtureRequest) -> Search:
    if request.param == "own":
        return Search(Paths(), ripgrep=None)
    if RIPGREP is None:
        pytest.skip("RIPGREP IS NOT INSTALLED: half of this suite did not run")
    return Search(Paths(), ripgrep=RIPGREP)


@pytest.fixture
def tree(tmp_path: Path) -> str:
    for age, (name, content) in enumerate(
        {
            "src/main.py": "import os\nprint('hello')\n",
            "src/lib/util.py": "# Hello\ndef f():\n    return 'hello'\n",
            "README.md": "hello world\n",
            ".github/ci.yml": "run: hello\n",
            ".git/config": "hello\n",
            "build/out.py": "hello\n",
            ".gitignore": "build/\n",
            "with space/a [1].txt": "hello\n",
        }.items()
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        os.utime(path, (1_000_000 + age, 1_000_000 + age))
    return str(tmp_path)


def names(found: list[str] | tuple[str, ...] | object, tree: str) -> list[str]:
    assert isinstance(found, list)
    return [path.removeprefix(f"{tree}/") for path in found]


def hits(search: Search, tree: str, pattern: str, **options: object) -> list[tuple[str, int]]:
    result = search.grep(Grep(pattern, **options), tree)  # type: ignore[arg-type]
    return [(match.path.removeprefix(f"{tree}/"), match.line) for match in result.matches]


# Files ----------------------------------------------------------------------------------


def test_files_are_found_newest_first(search: Search, tree: str) -> None:
    found = search.glob(Glob("**/*"), tree)

    assert names(found.paths, tree) == [
        "with space/a [1].txt",
        ".gitignore",
        ".github/ci.yml",
        "README.md",
        "src/lib/util.py",
        "src/main.py",
    ]
    assert found.content.split("\n") == list(found.paths)
    assert (found.path, found.pattern, found.truncated) == (tree, "**/*", False)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("**/*.py", ".", ["src/lib/util.py", "src/main.py"]),
        ("*.py", ".", []),
        ("*.py", "src", ["src/main.py"]),
        ("src/**/*.{py,md}", ".", ["src/lib/util.py", "src/main.py"]),
        ("with space/*", ".", ["with space/a [1].txt"]),
    ],
)
def test_a_glob_is_relative_to_the_search_directory(
    search: Search, tree: str, pattern: str, path: str, expected: list[str]
) -> None:
    assert names(search.glob(Glob(pattern, path=path), tree).paths, tree) == expected


def test_ignored_files_are_found_on_request(search: Search, tree: str) -> None:
    found = search.glob(Glob("**/*.py", include_ignored=True), tree)

    assert names(found.paths, tree) == ["build/out.py", "src/lib/util.py", "src/main.py"]


def test_a_truncated_file_list_says_so(search: Search, tree: str) -> None:
    found = search.glob(Glob("**/*.py", limit=1), tree)

    assert names(found.paths, tree) == ["src/lib/util.py"]
    assert found.truncated
    assert "only the first 1 files" in found.content
    assert not search.glob(Glob("**/*.py", limit=2), tree).truncated


def test_a_glob_without_matches_returns_an_empty_result(search: Search, tree: str) -> None:
    found = search.glob(Glob("*.rs"), tree)

    assert (found.paths, found.content) == ([], f"No files match '*.rs' in {tree}")


def test_a_search_rejects_a_missing_directory_or_an_invalid_limit(
    search: Search, tree: str
) -> None:
    with pytest.raises(NoSuchPath):
        search.glob(Glob("*", path="nothing"), tree)
    with pytest.raises(NotADirectory):
        search.glob(Glob("*", path="README.md"), tree)
    with pytest.raises(NoSuchPath):
        search.grep(Grep("x", path="nothing"), tree)
    with pytest.raises(InvalidRange):
        search.grep(Grep("x", limit=0), tree)
    with pytest.raises(InvalidPattern):
        search.glob(Glob("[a"), tree)


# Lines ----------------------------------------------------------------------------------


def test_lines_are_found_file_by_file(search: Search, tree: str) -> None:
    found = search.grep(Grep("hello"), tree)

    assert hits(search, tree, "hello") == [
        (".github/ci.yml", 1),
        ("README.md", 1),
        ("src/lib/util.py", 3),
        ("src/main.py", 2),
        ("with space/a [1].txt", 1),
    ]
    assert found.content.split("\n")[2] == f"{tree}/src/lib/util.py:3:    return 'hello'"
    assert found.matches[2].text == "    return 'hello'"
    assert (found.path, found.pattern, found.truncated) == (tree, "hello", False)


@pytest.mark.parametrize(
    ("pattern", "options", "expected"),
    [
        ("HELLO$", {"ignore_case": True, "include": "*.py"}, [("src/lib/util.py", 1)]),
        ("^import", {}, [("src/main.py", 1)]),
        ("f()", {"literal": True}, [("src/lib/util.py", 2)]),
        (r"f\(\)", {}, [("src/lib/util.py", 2)]),
        ("hello", {"path": "src/lib"}, [("src/lib/util.py", 3)]),
        ("hello", {"path": "README.md"}, [("README.md", 1)]),
        ("hello", {"include": "*.{md,yml}"}, [(".github/ci.yml", 1), ("README.md", 1)]),
        ("hello", {"include": "src/*.py"}, [("src/main.py", 2)]),
        ("hello", {"include": "**/lib/*"}, [("src/lib/util.py", 3)]),
        ("hello", {"path": "build"}, [("build/out.py", 1)]),
        ("^hello$", {"include": "*.py", "include_ignored": True}, [("build/out.py", 1)]),
        ("nothing at all", {}, []),
        (r"h(?=ello w)", {}, [("README.md", 1)]),
        (r"(l)\1o w", {}, [("README.md", 1)]),
        ("-hello", {}, []),
    ],
)
def test_search_options_select_the_matching_lines(
    search: Search,
    tree: str,
    pattern: str,
    options: dict[str, object],
    expected: list[tuple[str, int]],
) -> None:
    assert hits(search, tree, pattern, **options) == expected


def test_a_truncated_list_of_matching_lines_says_so(search: Search, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x\n" * 50)

    found = search.grep(Grep("x", limit=3), str(tmp_path))

    assert [match.line for match in found.matches] == [1, 2, 3]
    assert found.truncated
    assert "only the first 3 lines" in found.content
    assert not search.grep(Grep("x", limit=50), str(tmp_path)).truncated


def test_a_grep_without_matches_returns_an_empty_result(search: Search, tree: str) -> None:
    assert search.grep(Grep("xyzzy"), tree).content == f"No lines match 'xyzzy' in {tree}"


def test_binary_files_are_not_searched_for_lines(search: Search, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"hello\nhello\n\0hello\n")
    (tmp_path / "b.txt").write_bytes(b"hello\n")
    (tmp_path / "c.txt").write_bytes(b"\xff\xfe\0\xd8hello\n")

    assert hits(search, str(tmp_path), "hello") == [("b.txt", 1)]
    assert hits(search, str(tmp_path), "hello", path="a.bin") == []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_lines_are_found_in_any_encoding(search: Search, tmp_path: Path, encoding: str) -> None:
    (tmp_path / "f").write_bytes("één\r\ncafé x\r\n".encode(encoding))

    found = search.grep(Grep("x$"), str(tmp_path))

    assert [(match.line, match.text) for match in found.matches] == [(2, "café x")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_no_line_is_matched_after_the_last_newline(
    search: Search, tmp_path: Path, encoding: str
) -> None:
    (tmp_path / "f").write_bytes("a\n\r\nb\n".encode(encoding))
    (tmp_path / "g").touch()

    assert hits(search, str(tmp_path), "^$") == [("f", 2)]
    assert hits(search, str(tmp_path), "^") == [("f", 1), ("f", 2), ("f", 3)]


@pytest.mark.slow
def test_a_large_file_is_searched_to_its_end(search: Search, tmp_path: Path) -> None:
    with open(tmp_path / "f", "w") as file:
        file.writelines(f"line {n} of very many lines\r\n" for n in range(400_000))
        file.write("needle é")

    assert hits(search, str(tmp_path), "needle é$") == [("f", 400_001)]
    assert hits(search, str(tmp_path), "line 399999 ", literal=True) == [("f", 400_000)]


def test_a_long_line_is_shortened_around_the_match(search: Search, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("é" * 5000 + "needle" + "b" * 5000 + "\n")

    found = search.grep(Grep("needle"), str(tmp_path))

    assert found.matches[0].text == "…" + "é" * 200 + "needle" + "b" * 794 + "…"


@pytest.mark.parametrize(
    ("at", "expected"),
    [(0, "…" * 0 + "a" * 1000 + "…"), (1999, "…" + "a" * 1000), (1000, "…" + "a" * 1000 + "…")],
)
def test_an_excerpt_is_a_thousand_characters(at: int, expected: str) -> None:
    assert excerpt("a" * 2000, at) == expected


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "*", "[z-a]"])
def test_an_invalid_pattern_is_rejected_with_the_reason(
    search: Search, tree: str, pattern: str
) -> None:
    with pytest.raises(InvalidPattern, match="is not a regular expression: "):
        search.grep(Grep(pattern), tree)
    assert search.grep(Grep(pattern, literal=True), tree).kind == "grep"


@pytest.mark.parametrize("pattern", ["", "a\nb", "a\0b"])
def test_a_pattern_that_no_line_can_fit_is_refused(search: Search, tree: str, pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        search.grep(Grep(pattern), tree)
    with pytest.raises(InvalidPattern):
        search.grep(Grep("x", include="[a"), tree)


@pytest.mark.slow
def test_an_endless_pattern_is_stopped_and_returns_earlier_matches(
    search: Search, tmp_path: Path
) -> None:
    """Look-ahead keeps it from ripgrep, and the nested repeat takes exponential time."""
    (tmp_path / "a").write_text("aab\n")
    (tmp_path / "b").write_text("a" * 60 + "\n")

    found = search.grep(Grep("(?=a)(a+)+b", timeout=5), str(tmp_path))

    assert [match.path for match in found.matches] == [f"{tmp_path}/a"]
    assert found.truncated
    assert "out of time" in found.content


def test_a_missing_ripgrep_is_reported(tmp_path: Path) -> None:
    search = Search(Paths(), ripgrep="/nowhere/rg")

    with pytest.raises(MissingTool, match="/nowhere/rg cannot be run"):
        search.glob(Glob("*"), str(tmp_path))


def test_a_search_does_not_import_modules_from_the_workspace(
    search: Search, tmp_path: Path
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('taken for a module')\n")

    assert hits(search, str(tmp_path), "(?=taken)t") == [("json.py", 1)]


def test_an_unreadable_file_is_skipped(search: Search, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hello\n")
    (tmp_path / "link").symlink_to("/proc/self/mem")
    os.mkfifo(tmp_path / "pipe")

    assert hits(search, str(tmp_path), "hello") == [("a", 1)]


def test_a_name_that_is_not_utf8_is_found(search: Search, tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")).write_text("hello\n")

    assert search.glob(Glob("caf*"), str(tmp_path)).content == f"{tmp_path}/caf\ufffd"
    assert search.grep(Grep("hello"), str(tmp_path)).content == f"{tmp_path}/caf\ufffd:1:hello"
