"""JSON in and out: exact, quick on long text, and never a crash."""

from __future__ import annotations

import time
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given

from bascule.core.errors import InvalidAction
from bascule.wire import from_json, to_json

from .strategies import json_values


@given(json_values)
def test_json_survives_encoding_and_decoding(value: Any) -> None:
    assert from_json(to_json(value)) == value


def test_json_is_compact_utf8() -> None:
    assert to_json({"a": ["é", 1, 1.5, None, True]}) == '{"a":["é",1,1.5,null,true]}'.encode()


@pytest.mark.parametrize(
    "value", [nan, inf, -inf, {"a": [1, {"b": nan}]}, (inf,), {"text": "x" * 200_000, "n": nan}]
)
def test_non_finite_numbers_are_not_encoded(value: object) -> None:
    with pytest.raises(InvalidAction, match="NaN and Infinity cannot"):
        to_json(value)


def test_text_that_contains_nan_is_encoded() -> None:
    assert to_json({"content": "NaN -Infinity"}) == b'{"content":"NaN -Infinity"}'


@pytest.mark.parametrize("value", [object(), {"a": [object()]}, b"\xff", {1: object()}])
def test_values_json_cannot_represent_are_not_encoded(value: object) -> None:
    with pytest.raises(InvalidAction, match="cannot be written as JSON"):
        to_json(value)


def test_lone_surrogates_are_replaced_everywhere() -> None:
    value = {"caf\udce9": ["\ud800", {"a": ("\udfff", 1)}]}

    assert from_json(to_json(value)) == {"caf\ufffd": ["\ufffd", {"a": ["\ufffd", 1]}]}


def test_an_endlessly_nested_value_is_not_encoded() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(InvalidAction, match="cannot be written as JSON"):
        to_json(deep)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{} trailing",
        b"NaN",
        b'{"a": Infinity}',
        b"[-Infinity]",
        b"'single'",
        b'"\xff"',
        b'"\\ud800"',
        b"[" * 1_000_000,
        b'{"a":' * 1_000_000,
        b"1" * 1_000_000,
    ],
    ids=lambda data: repr(data[:12]),
)
def test_invalid_json_is_rejected(data: bytes) -> None:
    with pytest.raises(InvalidAction, match="not valid JSON"):
        from_json(data)


def test_a_value_at_the_maximum_decoding_depth_can_be_encoded() -> None:
    deep = b"[" * 200 + b"]" * 200

    assert to_json(from_json(deep)) == deep


@pytest.mark.slow
def test_fifty_megabytes_of_json_are_processed_quickly() -> None:
    event = {"content": "0123456789\n" * 4_700_000, "extras": {"duration": 0.5}}

    started = time.process_time()
    assert from_json(to_json(event)) == event

    assert time.process_time() - started < 3
