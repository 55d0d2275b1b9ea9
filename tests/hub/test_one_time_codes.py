"""Secrets that are good once: nonces and pairing codes."""

from __future__ import annotations

import pytest

from bascule.core.errors import InvalidNonce, InvalidPairing
from bascule.hub.one_time_codes import Nonces, PairingCodes


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def nonces(clock: Clock) -> Nonces:
    return Nonces(30, clock=clock)


@pytest.fixture
def codes(clock: Clock) -> PairingCodes:
    return PairingCodes(600, clock=clock)


def test_a_nonce_works_once(nonces: Nonces) -> None:
    nonce = nonces.issue("socket")
    assert nonces.redeem(nonce) == "socket"
    with pytest.raises(InvalidNonce):
        nonces.redeem(nonce)


def test_a_nonce_expires(nonces: Nonces, clock: Clock) -> None:
    nonce = nonces.issue("socket")
    clock.now += 31
    with pytest.raises(InvalidNonce):
        nonces.redeem(nonce)


def test_a_nonce_is_revoked_with_its_socket(nonces: Nonces) -> None:
    nonce = nonces.issue("socket")
    nonces.withdraw("socket")
    with pytest.raises(InvalidNonce):
        nonces.redeem(nonce)


def test_a_new_nonce_revokes_the_previous_one(nonces: Nonces) -> None:
    first, second = nonces.issue("socket"), nonces.issue("socket")
    with pytest.raises(InvalidNonce):
        nonces.redeem(first)
    assert nonces.redeem(second) == "socket"


def test_a_pairing_code_works_once_in_any_spelling(codes: PairingCodes) -> None:
    code = codes.issue("owner")
    typed = f"{code.text[:4]}-{code.text[4:]}".lower()
    assert len(code.text) == 8
    assert codes.redeem(typed, source="here").owner == "owner"
    with pytest.raises(InvalidPairing):
        codes.redeem(code.text, source="here")


def test_a_pairing_code_expires_after_ten_minutes(codes: PairingCodes, clock: Clock) -> None:
    code = codes.issue("owner")
    clock.now += 601
    with pytest.raises(InvalidPairing):
        codes.redeem(code.text, source="here")


def test_ten_wrong_codes_in_a_minute_block_even_the_right_code(
    codes: PairingCodes, clock: Clock
) -> None:
    code = codes.issue("owner")
    for _ in range(10):
        with pytest.raises(InvalidPairing, match="wrong"):
            codes.redeem("AAAAAAAA", source="here")
    with pytest.raises(InvalidPairing, match="minute"):
        codes.redeem(code.text, source="here")
    clock.now += 61
    assert codes.redeem(code.text, source="here") == code


def test_ten_wrong_codes_in_an_hour_do_not_block(codes: PairingCodes, clock: Clock) -> None:
    for _ in range(10):
        clock.now += 300
        with pytest.raises(InvalidPairing):
            codes.redeem("AAAAAAAA", source="here")
    assert codes.redeem(codes.issue("owner").text, source="here").owner == "owner"


def test_the_number_of_pending_codes_is_bounded(codes: PairingCodes, clock: Clock) -> None:
    for _ in range(100):
        codes.issue("owner")
    with pytest.raises(InvalidPairing):
        codes.issue("owner")
    clock.now += 601
    codes.issue("owner")


def test_wrong_codes_block_only_their_address(codes: PairingCodes) -> None:
    code = codes.issue("owner")
    for _ in range(50):
        with pytest.raises(InvalidPairing):
            codes.redeem("AAAAAAAA", source="there")
    assert codes.redeem(code.text, source="here") == code


def test_the_number_of_remembered_addresses_with_wrong_codes_is_bounded(
    codes: PairingCodes,
) -> None:
    for number in range(11_000):
        with pytest.raises(InvalidPairing):
            codes.redeem("AAAAAAAA", source=str(number))
    assert len(codes._wrong) == 10_000
