"""Runtimes as OpenHands itself makes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openhands.core.config import OpenHandsConfig
from openhands.core.setup import create_runtime
from openhands.utils.async_utils import call_async_from_sync

SANDBOX = "bascule.adapters.openhands_v0.SandboxRuntime"
WINDOW = "bascule.adapters.openhands_v0.VSCodeRuntime"


def configured(runtime: str, workspace: Path | None, store: Path, **settings: Any) -> Any:
    return OpenHandsConfig(
        runtime=runtime,
        workspace_base=None if workspace is None else str(workspace),
        file_store="local",
        file_store_path=str(store),
        **settings,
    )


@contextmanager
def opened(config: Any, **keywords: Any) -> Iterator[Any]:
    runtime = create_runtime(config, **keywords)
    call_async_from_sync(runtime.connect)
    try:
        yield runtime
    finally:
        runtime.close()
