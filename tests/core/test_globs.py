"""Glob patterns: what they fit, and that no pattern takes for ever; shared with the extension."""

from __future__ import annotations

import time
from typing import Any

import pytest

from bascule.core.errors import InvalidPattern
from bascule.core.globs import compile_glob, expand_braces
from tests.contracts.shared_vectors import load, text

_VECTORS = load("globs")


def _name(case: dict[str, Any]) -> str:
    return case.get("name") or text(case["pattern"])[:40]


@pytest.mark.parametrize("case", _VECTORS["matches"], ids=_name)
def test_a_glob_matches_its_examples_quickly(case: dict[str, Any]) -> None:
    begin = time.process_time()

    compiled = compile_glob(text(case["pattern"]))

    assert [path for path in map(text, case["fits"]) if not compiled.fullmatch(path)] == []
    assert [path for path in map(text, case["misses"]) if compiled.fullmatch(path)] == []
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("case", _VECTORS["refused"], ids=_name)
def test_an_invalid_glob_is_rejected(case: dict[str, Any]) -> None:
    with pytest.raises(InvalidPattern, match=case["why"]):
        compile_glob(text(case["pattern"]))


@pytest.mark.parametrize("case", _VECTORS["braces"], ids=_name)
def test_braces_stand_for_every_combination(case: dict[str, Any]) -> None:
    assert expand_braces(text(case["pattern"])) == case["stands_for"]


def test_no_glob_takes_unbounded_time() -> None:
    begin = time.process_time()

    assert not compile_glob("**/*a*a*a*a*a*a*b").fullmatch("/".join(["a" * 200] * 20))

    assert time.process_time() - begin < 1
