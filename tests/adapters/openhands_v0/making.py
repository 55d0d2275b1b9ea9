"""Runtimes as OpenHands itself makes them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from openhands.core.config import OpenHandsConfig
from openhands.core.setup import create_runtime
from openhands.utils.async_utils import call_async_from_sync

Kind = Literal["sandbox", "window", "session", "remote"]
"""Where an agent works: a sandbox here, a window, a session of a hub, or that by OpenHands' own."""

_SANDBOX = "bascule.adapters.openhands_v0.SandboxRuntime"
_WINDOW = "bascule.adapters.openhands_v0.VSCodeRuntime"
_RUNTIMES: dict[Kind, str] = {
    "sandbox": _SANDBOX,
    "window": _WINDOW,
    "session": _SANDBOX,
    "remote": "remote",
}


def use(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the variables that choose it; skips where what it needs was not brought."""
    hub, token = os.environ.get("SESSIONS_HUB"), os.environ.get("SESSIONS_TOKEN", "")
    if kind == "sandbox":
        monkeypatch.delenv("BASCULE_HUB", raising=False)
    elif kind == "window" and "BASCULE_WINDOW" not in os.environ:
        pytest.skip("no window here; tests/adapters/test_openhands_v0.py brings one")
    elif kind in ("session", "remote") and hub is None:
        pytest.skip("no sessions here; tests/adapters/test_openhands_v0.py brings a hub with some")
    elif kind in ("session", "remote") and hub is not None:
        monkeypatch.setenv("BASCULE_HUB", hub)
        monkeypatch.setenv("BASCULE_TOKEN", token)


def configured(kind: Kind, workspace: Path | None, store: Path, **settings: Any) -> Any:
    """After `use`."""
    config = OpenHandsConfig(
        runtime=_RUNTIMES[kind],
        workspace_base=None if workspace is None else str(workspace),
        file_store="local",
        file_store_path=str(store),
        **settings,
    )
    if kind == "remote":
        # What its variables SANDBOX_API_KEY, SANDBOX_REMOTE_RUNTIME_API_URL and
        # SANDBOX_RUNTIME_CONTAINER_IMAGE say.
        config.sandbox.api_key = os.environ["BASCULE_TOKEN"]
        config.sandbox.remote_runtime_api_url = f"{os.environ['BASCULE_HUB']}/openhands/v0"
        config.sandbox.runtime_container_image = "none"
    return config


@contextmanager
def opened(config: Any, **keywords: Any) -> Iterator[Any]:
    runtime = create_runtime(config, **keywords)
    call_async_from_sync(runtime.connect, 120)  # its own patience is 15 seconds
    try:
        yield runtime
    finally:
        runtime.close()
