"""The rules about sessions that never wait: states, repairs, idleness, masking."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from bascule.core.errors import SandboxUnreachable
from bascule.core.sessions import (
    RunningSandbox,
    SandboxPlan,
    SessionId,
    SessionSpec,
    SessionState,
    new_session_id,
)
from bascule.hub.sessions.disk import DiskLimit
from bascule.hub.sessions.idle import Sample, due, last_active
from bascule.hub.sessions.masking import Mask
from bascule.hub.sessions.repairs import Repair, repairs
from bascule.hub.sessions.rows import SessionRow
from bascule.hub.sessions.sandbox_messages import SandboxActivity, parse_event
from bascule.hub.sessions.specs import spec_from_json, spec_to_json
from bascule.hub.sessions.states import PREDECESSORS
from bascule.hub.settings import HubSettings
from bascule.runtime.spawn.local.messages import plan_from_wire, plan_to_wire
from tests.contracts.store import row

STATES: tuple[SessionState, ...] = get_args(SessionState)
SETTINGS = HubSettings(admin_token="t", idle_pause=100.0, idle_stop=1000.0)


def running(session: SessionRow) -> dict[str, RunningSandbox]:
    return {session.id: RunningSandbox(session_id=session.id)}


def test_the_file_layout_keeps_its_name_in_the_database_and_to_the_warden() -> None:
    spec = SessionSpec(file_layout="openhands")
    stored = spec_to_json(spec)
    assert stored["likeness"] == "openhands"
    assert spec_from_json(stored) == spec
    plan = SandboxPlan(
        session_id=new_session_id(),
        directory=Path("/sessions/a"),
        run_dir=Path("/run/a"),
        key="key",
        file_layout="openhands",
    )
    sent = plan_to_wire(plan)
    assert sent["likeness"] == "openhands"
    assert plan_from_wire(sent) == plan


def test_window_asks_is_stored_and_other_specs_keep_their_stored_form() -> None:
    asking = SessionSpec(window_asks=True)
    assert spec_from_json(spec_to_json(asking)) == asking
    # The hash of a request with an idempotency key includes the stored form.
    assert "window_asks" not in spec_to_json(SessionSpec())
    assert spec_from_json(spec_to_json(SessionSpec())) == SessionSpec()


# States -------------------------------------------------------------------------------------


def test_every_session_state_can_be_reached_and_left() -> None:
    assert set(PREDECESSORS) == set(STATES)
    assert set().union(*PREDECESSORS.values()) == set(STATES)


def test_a_stopped_or_failed_session_runs_again_only_through_starting() -> None:
    for state in ("stopped", "failed"):
        after = {to for to, before in PREDECESSORS.items() if state in before}
        assert after == {"starting", "stopping"}


# Repairs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "is_running", "repair"),
    [
        ("starting", False, "start"),
        ("starting", True, "start"),
        ("ready", True, "adopt"),
        ("ready", False, "fail"),
        ("paused", True, "adopt"),
        ("paused", False, "fail"),
        ("stopping", True, "stop"),
        ("stopping", False, "stop"),
        ("stopped", True, "end"),
        ("stopped", False, None),
        ("failed", True, "end"),
        ("failed", False, None),
    ],
)
def test_reconciling_makes_a_row_and_its_sandbox_agree(
    state: SessionState, is_running: bool, repair: str | None
) -> None:
    session = row(state=state)
    found = repairs([session], running(session) if is_running else {}, ())  # type: ignore[arg-type]
    assert [each.repair for each in found] == ([] if repair is None else [repair])


@pytest.mark.parametrize("state", STATES)
def test_an_unfinished_removal_is_continued(state: SessionState) -> None:
    session = row(state=state, is_being_removed=True)
    assert repairs([session], {}, ()) == [Repair(session.id, "remove")]


def test_reconciling_ends_a_sandbox_without_a_row() -> None:
    stray = new_session_id()
    assert repairs([], {stray: RunningSandbox(session_id=stray)}, ()) == [Repair(stray, "end")]


def test_sessions_with_an_operation_in_progress_are_not_reconciled() -> None:
    stray, session = new_session_id(), row(state="starting")
    busy = {stray, session.id}
    assert repairs([session], {stray: RunningSandbox(session_id=stray)}, busy) == []


# Idle ---------------------------------------------------------------------------------------


def active(activity: dict[str, float | None], used: float, session: SessionRow) -> float:
    before, now = Sample(940.0, 10.0), Sample(1000.0, 10.0 + used)
    told = SandboxActivity(cpu_seconds=now.cpu_seconds, **activity)
    return last_active(session, told, before, now, busy_from=0.02)


def test_open_tabs_and_waiting_servers_do_not_count_as_activity() -> None:
    session = row(last_active=500.0)
    assert active({"last_action": None, "last_keystroke": 400.0}, 0.5, session) == 500.0


def test_keystrokes_actions_and_cpu_use_count_as_activity() -> None:
    session = row(last_active=500.0)
    assert active({"last_action": 700.0, "last_keystroke": None}, 0.0, session) == 700.0
    assert active({"last_action": None, "last_keystroke": 800.0}, 0.0, session) == 800.0
    assert active({"last_action": None, "last_keystroke": None}, 3.0, session) == 1000.0


def test_a_sandbox_clock_that_runs_ahead_does_not_delay_idling() -> None:
    session = row(last_active=500.0)
    assert active({"last_action": 9e9, "last_keystroke": None}, 0.0, session) == 1000.0


def test_an_idle_session_is_due_for_pausing_and_then_stopping() -> None:
    session = row(state="ready", last_active=500.0, updated=500.0)
    assert due(session, 599.0, SETTINGS) is None
    assert due(session, 600.0, SETTINGS) == "pause"
    paused = replace(session, state="paused", updated=600.0)
    assert due(paused, 1599.0, SETTINGS) is None
    assert due(paused, 1600.0, SETTINGS) == "stop"
    assert due(replace(session, state="stopped"), 9e9, SETTINGS) is None


def test_without_idle_settings_no_session_is_due() -> None:
    never = replace(SETTINGS, idle_pause=None, idle_stop=None)
    assert due(row(state="ready"), 9e9, never) is None
    assert due(row(state="paused"), 9e9, never) is None


# Masking ------------------------------------------------------------------------------------


async def test_measuring_usage_takes_at_most_one_percent_of_the_time() -> None:
    now, asked = 0.0, 0

    async def measure(_: SessionId) -> int:
        nonlocal now, asked
        now += 3.0
        asked += 1
        return 5 << 30

    disk = DiskLimit(2 << 30, measure, interval=60.0, clock=lambda: now)
    assert "5 GiB on the disk" in (await disk.excess_reason(SessionId("a")) or "")
    now = 242.0
    assert await disk.excess_reason(SessionId("a")) is None
    assert asked == 1
    now = 244.0
    assert await disk.excess_reason(SessionId("a")) is not None
    assert await DiskLimit(None, measure, interval=60.0).excess_reason(SessionId("a")) is None


def test_secrets_are_masked_wherever_they_occur() -> None:
    mask = Mask(["hush/hush", "hush/hush-more", "", "ab"])
    assert mask.text("a hush/hush-more, hush/hush, https://x:hush%2Fhush@y ab") == (
        "a ***, ***, https://x:***@y ab"
    )
    assert mask.value({"hush/hush": ["hush/hush", {"n": 1, "x": None}]}) == {
        "***": ["***", {"n": 1, "x": None}]
    }


def test_without_secrets_nothing_is_masked() -> None:
    assert Mask([]).text("as it is") == "as it is"
    assert SessionSpec(secrets={"A": "very secret"}).__repr__().find("very secret") == -1


def test_a_malformed_event_is_not_forwarded() -> None:
    assert parse_event("removed", {}) is None
    assert parse_event("port.closed", {"n": 1, "port": 80, "url": "x"}) == {"n": 1, "port": 80}
    for name, data in (
        ("port.opened", {"n": "1/../x", "port": 80}),
        ("port.opened", {"n": 1, "port": 1 << 20}),
        ("port.opened", []),
        ("workspace.failed", {"cause": "x" * 5000}),
        ("workspace.progress", {"stage": "s", "percent": 10**400}),
    ):
        with pytest.raises(SandboxUnreachable, match="invalid answer"):
            parse_event(name, data)
