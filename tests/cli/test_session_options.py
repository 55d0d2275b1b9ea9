"""What people type for a new session, as the hub is asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bascule.cli import session_options as options
from bascule.core.errors import InvalidSetting, UsageError


def test_without_network_flags_the_hub_decides_on_egress() -> None:
    assert options.egress(None, ()) is None
    assert options.egress("off", ()) == {"mode": "off", "domains": []}
    assert options.egress(None, ["pypi.org"]) == {"mode": "proxy", "domains": ["pypi.org"]}


def test_a_token_comes_from_a_variable_and_a_key_from_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GIT_TOKEN", "hunter2")
    (tmp_path / "key").write_text("secret")
    https, ssh = "https://git.example/x.git", "git@git.example:x.git"
    assert options.credential(git=https, token="GIT_TOKEN", key=None) == {
        "username": "git",
        "password": "hunter2",
    }
    named = options.credential(git="https://ann@git.example/x.git", token="GIT_TOKEN", key=None)
    assert named["username"] == "ann"
    assert options.credential(git=ssh, token="", key=tmp_path / "key") == {"private_key": "secret"}
    assert options.credential(git="", token="", key=None) == {}


def test_a_missing_git_credential_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("GIT_TOKEN", raising=False)
    with pytest.raises(InvalidSetting, match="--git-token GIT_TOKEN"):
        options.credential(git="https://git.example/x.git", token="GIT_TOKEN", key=None)
    with pytest.raises(UsageError, match="--git-key"):
        options.credential(git="git@git.example:x.git", token="", key=tmp_path / "none")
    with pytest.raises(UsageError, match="need --git"):
        options.credential(git="", token="", key=tmp_path / "none")
