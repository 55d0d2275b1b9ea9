"""One tree of errors, drawn where it is defined, each with a code of its own."""

from __future__ import annotations

import re

import pytest

from bascule.core import errors
from bascule.core.errors import (
    BasculeError,
    BridgeError,
    BridgeTimeout,
    ExecutionError,
    LinkError,
    RemoteError,
    UsageError,
)

CLASSES = {
    name: cls
    for name, cls in vars(errors).items()
    if isinstance(cls, type) and issubclass(cls, BasculeError)
}
BRANCHES = (UsageError, ExecutionError, LinkError, BridgeError)


def drawn() -> dict[str, tuple[str, str]]:
    """Class by class, the branch it is drawn below and the code beside it."""
    text = errors.__doc__ or ""
    found, branch = {}, ""
    for line in text[text.index("    BasculeError\n") : text.index("\nEvery class")].splitlines():
        if named := re.match(r"      (\w+Error)  ", line):
            branch = named[1]
        elif line.startswith("        "):
            for name, code in re.findall(r"(\w+) {2,}(\(.*?\)|[\w.]+)", line):
                found[name] = (branch, code)
    return found


def test_the_drawn_tree_has_exactly_the_classes_there_are() -> None:
    leaves = CLASSES.keys() - {"BasculeError"} - {branch.__name__ for branch in BRANCHES}

    assert drawn().keys() == leaves


def test_each_class_is_drawn_below_its_branch_and_beside_its_code() -> None:
    real = {
        name: (CLASSES[name].__mro__[1].__name__, CLASSES[name].code)
        for name in drawn()
        if name != RemoteError.__name__
    }

    assert {name: place for name, place in drawn().items() if name in real} == real
    assert drawn()["RemoteError"] == ("LinkError", "(the peer's own code)")


def test_every_code_stands_for_one_class() -> None:
    # The root is never raised itself; its code says what an error without one of its own is.
    codes = [cls.code for cls in CLASSES.values() if cls is not BasculeError]

    assert len(set(codes)) == len(codes)
    assert all("code" in vars(cls) for cls in CLASSES.values())
    assert all(re.fullmatch(r"[a-z]+(\.[a-z_]+)?", code) for code in codes)


@pytest.mark.parametrize("cls", [cls for cls in CLASSES.values() if cls is not RemoteError])
def test_an_error_has_a_message_for_people_and_detail_for_handlers(
    cls: type[BasculeError],
) -> None:
    error = cls("Nothing at /a", path="/a")

    assert str(error) == error.message == "Nothing at /a"
    assert error.detail == {"path": "/a"}


def test_an_error_of_a_peer_keeps_its_code() -> None:
    error = RemoteError("Too dark", remote_code="moon.dark", phase=0)

    assert (error.message, error.remote_code, error.detail) == (
        "Too dark",
        "moon.dark",
        {"phase": 0},
    )


def test_an_error_of_a_bridge_is_caught_by_scripts_that_know_nothing_of_this_tree() -> None:
    error = BridgeTimeout("No answer", timeout=1)

    assert isinstance(error, RuntimeError)
    assert isinstance(error, TimeoutError)
    assert (str(error), error.detail) == ("No answer", {"timeout": 1})
