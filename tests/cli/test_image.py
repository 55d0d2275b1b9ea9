"""`bascule image` builds on an engine, and says what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from bascule.cli import app
from bascule.core.errors import InvalidSetting, MissingTool


def test_a_missing_container_engine_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with pytest.raises(MissingTool, match="No Docker engine answers"):
        app.run(["image"])


def test_a_container_engine_on_another_machine_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere:2375")
    with pytest.raises(InvalidSetting, match="must be on this machine"):
        app.run(["image", "--target", "sandbox"])


def test_an_argument_without_a_value_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="NAME=VALUE"):
        app.run(["image", "--arg", "MICROMAMBA"])
