"""What a person is told when everything runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bascule.cli.up_summary import show_in_browser


def test_up_does_not_claim_to_open_a_missing_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BROWSER", str(tmp_path / "browser"))
    monkeypatch.setattr("webbrowser._tryorder", None)

    assert not show_in_browser("http://127.0.0.1:1/")


def test_up_opens_a_browser_at_its_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = tmp_path / "opened"
    os.mkfifo(opened)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >{opened}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setattr("webbrowser._tryorder", None)

    assert show_in_browser("http://127.0.0.1:1/")
    assert opened.read_text() == "http://127.0.0.1:1/\n"
