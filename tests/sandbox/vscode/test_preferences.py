from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bascule.sandbox.vscode.preferences import write_preferences


def settings(data: Path, scope: str) -> Any:
    return json.loads((data / scope / "settings.json").read_text())


def test_a_new_window_gets_default_and_given_settings(tmp_path: Path) -> None:
    write_preferences(tmp_path, user={"a": 1}, machine={"b": 2}, defaults={"a": 0, "c": 3})

    assert settings(tmp_path, "User") == {"a": 1, "c": 3}
    assert settings(tmp_path, "Machine") == {"b": 2}


def test_user_settings_override_only_the_defaults(tmp_path: Path) -> None:
    write_preferences(tmp_path, user={}, machine={}, defaults={"theme": "light"})
    (tmp_path / "User/settings.json").write_text('{"theme": "dark", "trust": false}')

    write_preferences(
        tmp_path, user={"trust": True}, machine={}, defaults={"theme": "light", "new": 1}
    )

    assert settings(tmp_path, "User") == {"theme": "dark", "new": 1, "trust": True}


def test_a_settings_file_with_comments_is_left_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "User/settings.json"
    file.parent.mkdir()
    file.write_text('{"theme": "dark"} // mine\n')

    write_preferences(tmp_path, user={"a": 1}, machine={})

    assert file.read_text() == '{"theme": "dark"} // mine\n'
