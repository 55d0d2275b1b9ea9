"""Run by tests/adapters/test_openhands_v1.py in an environment that has OpenHands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

if find_spec("openhands") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    # Without it OpenHands asks the network for prices while it is imported.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["OPENHANDS_SUPPRESS_BANNER"] = "1"


@pytest.fixture(autouse=True)
def no_hub_by_chance(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test says where it acts."""
    for name in ("BASCULE_HUB", "BASCULE_TOKEN", "BASCULE_WINDOW", "BASCULE_SESSION"):
        monkeypatch.delenv(name, raising=False)
    yield
    from bascule.adapters.openhands_v1 import use_bascule

    use_bascule()


@pytest.fixture(autouse=True)
def nothing_blocks_the_loop() -> None:
    """Off here: OpenHands has every logger write to the terminal, also those on an event loop."""
