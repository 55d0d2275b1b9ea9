"""An engine for all tests here, or none, and then all of them say why they were skipped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bascule.runtime.spawn.docker import DockerSettings
from tests import dockerd
from tests.dockerd import Dockerd, MakeSettings


@pytest.fixture(scope="session")
def engine() -> Iterator[Dockerd]:
    try:
        with dockerd.running() as engine:
            yield engine
    except dockerd.CannotRun as error:
        pytest.skip(f"NO DOCKER ENGINE: {error}")


@pytest.fixture(scope="session")
def image(engine: Dockerd) -> str:
    try:
        return asyncio.run(dockerd.ensure_image(engine.address))
    except dockerd.CannotRun as error:
        pytest.skip(f"NO IMAGE: {error}")


@pytest.fixture
def settings_in(engine: Dockerd, image: str) -> MakeSettings:
    def settings_in(place: Path, **given: Any) -> DockerSettings:
        settings = DockerSettings(
            sessions_dir=place / "sessions",
            run_dir=place / "run",
            engine=engine.address,
            image=image,
            workspace_roots=(place,),
        )
        return replace(settings, **given)

    return settings_in
