"""Glob patterns: what they fit, and that no pattern takes for ever."""

from __future__ import annotations

import time

import pytest

from bascule.core.errors import InvalidPattern
from bascule.sandbox.files.globs import compile_glob, expand_braces


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        ("*.py", ["a.py", ".py", "a.b.py"], ["a/b.py", "a.pyc", "py"]),
        ("**/*.py", ["a.py", "a/b.py", "a/b/c.py"], ["a.pyc", "a.py/b"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py", "x/src/a.py", "srcs/a.py"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "a/src/b"]),
        ("**", ["a", "a/b/c"], []),
        ("**/test/**/x", ["test/x", "a/test/b/x", "a/test/x"], ["testx", "a/tests/x"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c"], ["a/c", "a/b", "b/c"]),
        ("?.txt", ["a.txt", "é.txt"], ["ab.txt", ".txt", "/.txt"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "x"]),
        ("[!a-c]x", ["dx"], ["ax", "/x"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("[]a]x", ["]x", "ax"], ["bx"]),
        ("[a-]x", ["-x", "ax"], ["bx"]),
        ("*.{py,pyi}", ["a.py", "a.pyi"], ["a.p", "a.pyc"]),
        ("{a,b/{c,d}}.txt", ["a.txt", "b/c.txt", "b/d.txt"], ["c.txt"]),
        (r"\*.py", ["*.py"], ["a.py"]),
        ("./a.py", ["a.py"], []),
        ("a+b(c).py", ["a+b(c).py"], ["aab.py"]),
        ("**.py", ["a.py"], ["a/b.py"]),
        ("*a*b*", ["ab", "xaxbx"], ["ba"]),
        ("a\n*", ["a\nb"], ["ab"]),
    ],
)
def test_a_pattern_fits_what_it_says(pattern: str, fits: list[str], does_not: list[str]) -> None:
    compiled = compile_glob(pattern)

    assert [path for path in fits if not compiled.fullmatch(path)] == []
    assert [path for path in does_not if compiled.fullmatch(path)] == []


@pytest.mark.parametrize("pattern", ["[a", "{a", "/etc/*", "../*", "a/../b", "[z-a]", "{a,b}" * 9])
def test_a_pattern_that_makes_no_sense_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        compile_glob(pattern)


def test_braces_stand_for_every_combination() -> None:
    assert expand_braces("{a,b}x{1,}") == ["ax1", "ax", "bx1", "bx"]
    assert expand_braces(r"\{a,b}") == [r"\{a,b}"]


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 60 + "b", "a" * 250),
        ("**/a/" * 30 + "b", "a/" * 500),
        ("**/*a*a*a*a*a*a*b", "/".join(["a" * 200] * 20)),
        ("?*" * 50 + "z", "a" * 250),
    ],
)
def test_no_pattern_takes_for_ever(pattern: str, path: str) -> None:
    begin = time.perf_counter()

    assert not compile_glob(pattern).fullmatch(path)

    assert time.perf_counter() - begin < 1
