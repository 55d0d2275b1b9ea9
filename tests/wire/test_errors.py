"""Errors keep their class, message and detail on the way to a peer."""

from __future__ import annotations

import json
from math import nan
from pathlib import Path
from typing import Any

import pytest

from bascule.core import errors
from bascule.core.errors import (
    BasculeError,
    InternalError,
    InvalidAction,
    NoSuchPath,
    RemoteError,
)
from bascule.core.identity import EventId
from bascule.wire import error_from_wire, error_observation, error_to_wire

CLASSES = [
    cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, BasculeError) and cls is not BasculeError
]


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls is not RemoteError])
def test_an_error_decodes_to_its_class(cls: type[BasculeError]) -> None:
    there = error_to_wire(cls("It went wrong", path="/a", lines=[1, 2]))
    back = error_from_wire(json.loads(json.dumps(there)))

    assert there == {
        "code": cls.code,
        "message": "It went wrong",
        "detail": {"path": "/a", "lines": [1, 2]},
    }
    assert type(back) is cls
    assert str(back) == back.message == "It went wrong"
    assert back.detail == {"path": "/a", "lines": [1, 2]}


def test_a_code_of_a_newer_peer_is_kept_and_sent_on() -> None:
    there = {"code": "moon.dark", "message": "Too dark", "detail": {"phase": 0}}

    back = error_from_wire(there)

    assert isinstance(back, RemoteError)
    assert back.remote_code == "moon.dark"
    assert error_to_wire(back) == there


def test_the_root_error_is_sent_as_an_internal_error() -> None:
    assert type(error_from_wire(error_to_wire(BasculeError("x")))) is InternalError


def test_detail_may_hold_any_name() -> None:
    detail = {"message": "m", "self": 1, "code": "c", "remote_code": "r", "not a name": None}

    assert error_from_wire({"code": "path.not_found", "message": "x", "detail": detail}).detail == (
        detail
    )
    assert error_from_wire({"code": "?", "message": "x", "detail": detail}).detail == detail


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (Path("/a/b"), "/a/b"),
        (nan, "nan"),
        (b"\xff", "b'\\xff'"),
        ((1, 2), [1, 2]),
        ({"k": {3}}, {"k": [3]}),
        ({1: "one"}, {"1": "one"}),
        ("caf\udce9", "caf\ufffd"),
        (range(2), [0, 1]),
    ],
)
def test_detail_is_json_whatever_it_holds(value: object, sent: object) -> None:
    detail = error_to_wire(InvalidAction("x", value=value))["detail"]

    assert detail == {"value": sent}
    assert json.loads(json.dumps(detail, allow_nan=False)) == detail


def test_self_referencing_error_detail_is_truncated() -> None:
    endless: list[Any] = []
    endless.append(endless)

    json.dumps(error_to_wire(InvalidAction("x", value=endless)))


@pytest.mark.parametrize("data", [None, "no", [], {}, {"code": 5}, {"message": "no code"}])
def test_an_unrecognised_error_response_is_a_remote_error_that_shows_it(data: object) -> None:
    error = error_from_wire(data)

    assert isinstance(error, RemoteError)
    assert repr(data) in error.message


def test_an_error_without_message_or_detail_has_a_default_text() -> None:
    error = error_from_wire({"code": "path.not_found", "message": None, "detail": 5})

    assert isinstance(error, NoSuchPath)
    assert error.message == "The peer reported path.not_found"
    assert error.detail == {}


def test_an_error_becomes_the_observation_of_the_action_that_failed() -> None:
    observation = error_observation(NoSuchPath("/a does not exist", path="/a"), EventId("q"))
    relayed = error_observation(RemoteError("Too dark", remote_code="moon.dark"), None)

    assert observation.content == "/a does not exist"
    assert (observation.error_id, observation.cause) == ("path.not_found", "q")
    assert relayed.error_id == "moon.dark"
