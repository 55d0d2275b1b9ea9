"""The attacks of `tests/hub/sessions/attacks.py` on a hub whose sessions are in containers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.hub.sessions.attacks import ATTACKS, Attack, Site

from .test_hub import Machine, machine

__all__ = ["machine"]  # a fixture

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def site(machine: Machine) -> Iterator[Site]:
    with machine.hub() as hub:
        yield Site(machine.url, machine.must("token"), hub.pid, machine.state)
        machine.must("session", "rm", "--all")


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_attacks_from_sessions_do_not_compromise_the_hub(site: Site, attack: Attack) -> None:
    asyncio.run(attack(site))
