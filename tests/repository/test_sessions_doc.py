"""docs/sessions.md and docs/hub.md say what is there: every call, field, state and setting."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from bascule.cli.hub_settings import HubFile
from bascule.core.sessions import SessionState
from bascule.hub import Hub, HubSettings
from bascule.hub.sessions.messages import SessionBody
from bascule.hub.sessions.states import PREDECESSORS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "sessions.md").read_text()


def first_cells(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)


def part(title: str) -> str:
    return re.split(r"^#+ ", PAGE.partition(f"# {title}\n")[2], flags=re.MULTILINE)[0]


def test_the_page_has_every_call_of_the_openapi() -> None:
    schema = Hub(HubSettings(admin_token="t"))._api.app.openapi()
    calls = {
        f"{method.upper()} {path}"
        for path, methods in schema["paths"].items()
        for method in methods
        if path.startswith(("/api/sessions", "/api/archives", "/api/audit"))
    }
    assert set(first_cells(part("REST"))) == calls


def test_the_page_has_every_field_of_a_request() -> None:
    assert first_cells(part("Fields of a new session")) == list(SessionBody.model_fields)


def test_the_sessions_page_lists_every_state_and_its_transitions() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", part("States"), re.MULTILINE))
    assert set(rows) == set(get_args(SessionState))
    for state, goes_on_to in rows.items():
        after = {to for to, before in PREDECESSORS.items() if state in before}
        # A removal goes through `stopping` from everywhere.
        assert set(re.findall(r"`(\w+)`", goes_on_to)) | {"stopping"} == after


def test_the_page_of_the_hub_has_every_setting() -> None:
    told = first_cells((DOCS / "hub.md").read_text())
    assert set(HubFile.model_fields) <= set(told)
