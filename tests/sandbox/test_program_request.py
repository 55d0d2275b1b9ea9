"""Requests for programs that are refused, and what the errors say."""

from __future__ import annotations

from typing import Any

import pytest

from bascule.core.errors import BasculeError
from bascule.sandbox.programs.program_request import ProgramRequest

SECRET = "hunter2"


@pytest.mark.parametrize(
    "given",
    [
        SECRET,
        [SECRET],
        {"TOKEN": [SECRET]},
        {"TOKEN": {"a": SECRET}},
        {"TOKEN": SECRET + "\udc80"},
        {"TOKEN": SECRET + "\0"},
        {"TOKEN": SECRET * 100_000},
        {"bad name": SECRET},
    ],
    ids=lambda given: repr(given)[:30],
)
def test_errors_do_not_contain_the_values_of_secret_variables(given: Any) -> None:
    with pytest.raises(BasculeError) as raised:
        ProgramRequest.from_json({"argv": ["ls"], "secret_env": given})
    assert SECRET not in raised.value.message
    assert SECRET not in repr(raised.value.__dict__)
    assert "secret_env" in raised.value.message or "bad name" in raised.value.message


def test_a_duplicate_variable_does_not_show_its_values() -> None:
    with pytest.raises(BasculeError, match="'TOKEN' is in `env` and in `secret_env`") as raised:
        ProgramRequest(argv=["ls"], env={"TOKEN": "a"}, secret_env={"TOKEN": SECRET})
    assert SECRET not in str(raised.value)


def test_errors_show_other_values() -> None:
    with pytest.raises(BasculeError, match=r"`env.A` must be a text, not \[7\]"):
        ProgramRequest.from_json({"argv": ["ls"], "env": {"A": [7]}})
