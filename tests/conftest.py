"""What every test gets: a detector that fails it when our code blocks the event loop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import blockbuster.blockbuster as detector
import pytest

MAY_BLOCK: tuple[tuple[str, str, str], ...] = ()
"""(call, file, function): named places where a call that could block is right, with the reason."""


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the repository."""
    return Path(__file__).parent.parent


@pytest.fixture(scope="session")
def blocking_calls() -> Iterator[list[detector.BlockingError]]:
    """Every blocking call our code made on an event loop, in the order they were refused."""
    seen: list[detector.BlockingError] = []

    class Recorded(detector.BlockingError):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            seen.append(self)

    with pytest.MonkeyPatch.context() as patch, detector.blockbuster_ctx("bascule") as active:
        patch.setattr(detector, "BlockingError", Recorded)
        for call, file, function in MAY_BLOCK:
            active.functions[call].can_block_in(file, function)
        yield seen


@pytest.fixture(autouse=True)
def nothing_blocks_the_loop(blocking_calls: list[detector.BlockingError]) -> Iterator[None]:
    """The call is refused where it happens; one that a broad `except` ate fails the test here."""
    blocking_calls.clear()
    yield
    if blocking_calls:
        raise blocking_calls[0]
