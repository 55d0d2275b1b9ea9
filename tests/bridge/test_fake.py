"""The fake that users test with keeps what a bridge promises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bascule.bridge import BridgeClient
from bascule.testing.bridge import FakeEditor, FakeTransport
from tests.contracts.bridge import BridgeContract


@pytest.fixture
def editor() -> FakeEditor:
    return FakeEditor()


@pytest.fixture
def bridge(editor: FakeEditor) -> Iterator[BridgeClient]:
    bridge = BridgeClient(FakeTransport(editor), grace=0.1)
    yield bridge
    bridge.close()


class TestFakeBridge(BridgeContract):
    pass
