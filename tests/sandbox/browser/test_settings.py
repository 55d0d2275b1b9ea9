"""What a machine without a browser is told."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from bascule.sandbox.browser.settings import BrowserSettings, find_chromium, why_no_browser


def test_a_missing_browser_is_reported_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_chromium(BrowserSettings()) is None
    assert "apt-get install chromium" in why_no_browser(BrowserSettings())
    named = BrowserSettings(chromium=str(tmp_path / "none"))
    assert str(tmp_path / "none") in why_no_browser(named)
    assert "switched off" in why_no_browser(BrowserSettings(enabled=False))

    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert "pip install" in why_no_browser(BrowserSettings())


def test_the_run_script_installs_the_browser(project: Path) -> None:
    assert "scripts/setup run\n" in (project / "scripts/run").read_text()
