"""Run by tests/adapters/test_openhands_v0.py in an environment that has OpenHands."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

if find_spec("openhands") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    # Without it OpenHands asks the network for prices while it is imported.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"


@pytest.fixture(autouse=True)
def nothing_blocks_the_loop() -> None:
    """Off here: OpenHands' own loops write logs and more."""
