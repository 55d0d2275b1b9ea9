"""What counts as the same, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from bascule.runtime.replay.observation_diff import Difference, ObservationDiff


def seen(content: str, *, kind: str = "run", exit_code: int = 0, **extras: Any) -> dict[str, Any]:
    metadata = {"metadata": {"exit_code": exit_code}} if kind == "run" else {}
    return {"observation": kind, "content": content, "extras": {**metadata, **extras}}


def same(was: str, now: str, **keywords: Any) -> bool:
    return ObservationDiff(**keywords).differences(seen(was), seen(now)) == []


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("[1] 4711\n", "[1] 4712\n"),
        ("started with pid 17", "started with pid 99"),
        ("real\t0m0.004s", "real\t0m1.250s"),
        ("3 passed in 0.12s", "3 passed in 1.07s"),
        ("took 12 ms", "took 7 ms"),
        ("2026-01-05T10:00:00.123+00:00 up", "2027-03-06T11:12:13Z up"),
        ("Mon Jan  5 10:00:00 UTC 2026", "Fri Dec 25 08:01:02 CET 2026"),
        ("-rw-r--r-- 1 a a 3 Jan  5 10:00 f", "-rw-r--r-- 1 a a 3 Nov 15 22:04 f"),
        ("<object at 0x7f00deadbeef>", "<object at 0x7f11cafe0000>"),
        ("made /tmp/tmp.Xy12Ab34", "made /tmp/tmp.Qq98Zz76"),
        ("at http://127.0.0.1:40123/", "at http://127.0.0.1:39001/"),
        ("a  \r\nb\n", "a\nb"),
    ],
)
def test_volatile_values_are_not_reported_as_differences(was: str, now: str) -> None:
    assert same(was, now)
    assert not same(was, now, exact=True)


@pytest.mark.parametrize(
    ("was", "now"),
    [("3 passed", "4 passed"), ("a\nb", "b\na"), ("exit 1", "exit 2"), ("v1.2.3", "v1.2.4")],
)
def test_other_differences_are_reported(was: str, now: str) -> None:
    assert not same(was, now)


def test_paths_below_the_old_and_the_new_root_are_equal() -> None:
    diff = ObservationDiff(root_was="/workspace", root_now="/tmp/new")
    assert diff.differences(seen("/workspace/a.py:1"), seen("/tmp/new/a.py:1")) == []
    assert diff.differences(seen("/workspace2/a"), seen("/tmp/new2/a")) != []
    asked = {"command": "cat /workspace/f '/workspace' /my/workspace /workspaces", "cwd": None}
    assert diff.relocate(asked) == {
        "command": "cat /tmp/new/f '/tmp/new' /my/workspace /workspaces",
        "cwd": None,
    }


def test_an_exit_code_and_an_error_differ_by_name() -> None:
    diff = ObservationDiff()
    assert diff.differences(seen("x"), seen("x", exit_code=2)) == [
        Difference("exit_code", "0", "2")
    ]
    kinds = diff.differences(
        seen("1\n", kind="read", path="f"), seen("no f", kind="error", error_id="path.not_found")
    )
    assert [each.what for each in kinds] == ["observation", "content"]


def test_a_masked_secret_matches_any_text() -> None:
    diff = ObservationDiff()
    was = seen("token=***; done ***")
    assert diff.differences(was, seen("token=abc; done "), is_masked=True) == []
    assert diff.differences(was, seen("token=abc; undone"), is_masked=True) != []
    assert diff.differences(was, seen("token=abc; done x"), is_masked=False) != []


def test_directories_are_compared_without_times_and_searches_without_order() -> None:
    diff = ObservationDiff()
    entry = {"path": "f", "type": "file", "size": 3}
    was = seen("f", kind="list", path="/w", entries=[{**entry, "modified": 1.0}])
    assert diff.differences(was, seen("f", kind="list", path="/w", entries=[entry])) == []
    bigger = [{**entry, "size": 4}]
    assert diff.differences(was, seen("f", kind="list", path="/w", entries=bigger)) != []
    found = seen("b\na", kind="glob", paths=["b", "a"])
    assert diff.differences(found, seen("a\nb", kind="glob", paths=["a", "b"])) == []
