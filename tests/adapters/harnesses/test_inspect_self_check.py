"""Inspect AI's own checks of a sandbox provider, in one session."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox import self_check
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from bascule.adapters.inspect_ai import BasculeSandboxEnvironment

pytestmark = pytest.mark.asyncio(loop_scope="module")

CANNOT = {
    "test_exec_as_user": "a session has one user, who cannot create others",
}
"""Checks that a session cannot satisfy, with the reason."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def environment() -> AsyncIterator[SandboxEnvironment]:
    opened = await BasculeSandboxEnvironment.sample_init("self check", None, {})
    yield opened["default"]
    await BasculeSandboxEnvironment.sample_cleanup("self check", None, opened, False)


@pytest.fixture
def sandbox_env(
    environment: SandboxEnvironment, request: pytest.FixtureRequest
) -> SandboxEnvironment:
    if (reason := CANNOT.get(request.node.originalname)) is not None:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    return environment


async def test_inspect_has_44_checks() -> None:
    assert sum(name.startswith("test_") for name in vars(self_check)) == 44
