"""The blocking-call detector of `tests/conftest.py` is awake."""

from __future__ import annotations

import asyncio
import time
from types import ModuleType

import blockbuster
import pytest

import bascule


async def test_bascule_code_must_not_block_the_event_loop(
    blocking_calls: list[blockbuster.BlockingError],
) -> None:
    with pytest.raises(blockbuster.BlockingError, match=r"time\.sleep"):
        _ours("import time\ndef nap(): time.sleep(0)").nap()

    blocking_calls.clear()


async def test_a_blocking_call_whose_error_was_caught_is_still_recorded(
    blocking_calls: list[blockbuster.BlockingError],
) -> None:
    caught = "import time\ndef nap():\n try: time.sleep(0)\n except Exception: pass"
    _ours(caught).nap()

    assert len(blocking_calls) == 1
    blocking_calls.clear()


async def test_a_thread_may_block() -> None:
    await asyncio.to_thread(_ours("import time\ndef nap(): time.sleep(0)").nap)


async def test_code_outside_bascule_may_block() -> None:
    time.sleep(0)


def _ours(source: str) -> ModuleType:
    """A module that looks as if it lay in our package."""
    module = ModuleType("bascule.made_up")
    exec(compile(source, f"{bascule.__path__[0]}/made_up.py", "exec"), module.__dict__)
    return module
