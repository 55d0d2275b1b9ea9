"""The dashboard, the alerts and the table of metrics agree with what a hub really answers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.hub.serving import ADMIN, Client, RunningHub

PROJECT = Path(__file__).parents[2]
ALERTS = PROJECT / "deploy/prometheus/alerts.yaml"
DASHBOARD = PROJECT / "deploy/grafana/bascule.json"
GUIDE = PROJECT / "docs/guides/observability.md"
ALERTS_TEST = Path(__file__).parent / "alerts_test.yaml"
PROMTOOL = shutil.which("promtool")

_NAME = re.compile(r"\bbascule_hub_[a-z_]+")
_LABEL_NAMES = re.compile(r"by \(([a-z_, ]+)\)|\{([^{}]*)\}")
_FAMILY = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)
_SUFFIXES = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("",), "gauge": ("",)}
_ADDED_BY_PROMETHEUS = {"job", "instance", "le"}


async def families() -> dict[str, str]:
    """The metrics in a hub's answer, with their types."""
    async with RunningHub() as hub, Client(hub.url, token=ADMIN) as admin:
        status, text = await admin.ask("GET", "/metrics")
    assert status == 200
    found: dict[str, str] = dict(_FAMILY.findall(text.decode()))
    # `_created` is when a counter began, which prometheus_client adds.
    return {name: kind for name, kind in found.items() if not name.endswith("_created")}


def documented() -> dict[str, set[str]]:
    """The metrics in the guide's table, with their labels."""
    table = GUIDE.read_text().partition("### All metrics")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(bascule_hub_[a-z_]+)` \| ([^|]*) \|", table, re.MULTILINE)
    return {name: set(re.findall(r"`([a-z_]+)`", labels)) for name, labels in rows}


def expressions() -> list[str]:
    """Every query of the dashboard and of the alerts."""
    dashboard: dict[str, Any] = json.loads(DASHBOARD.read_text())
    panels = [target["expr"] for each in dashboard["panels"] for target in each.get("targets", ())]
    variables = [each["query"] for each in dashboard["templating"]["list"]]
    return [*panels, *variables, *(rule["expr"] for rule in rules())]


def rules() -> list[dict[str, Any]]:
    groups: dict[str, Any] = YAML(typ="safe").load(ALERTS)
    return [rule for group in groups["groups"] for rule in group["rules"]]


async def test_every_queried_metric_exists_and_has_the_queried_labels() -> None:
    labels = documented()
    kinds = await families()
    samples = {name + end: name for name, kind in kinds.items() for end in _SUFFIXES[kind]}
    for expression in expressions():
        names = _NAME.findall(expression)
        assert names or "up{" in expression or expression == "prometheus", expression
        known = {label for name in names for label in labels[samples[name]]}
        for grouped, matched in _LABEL_NAMES.findall(expression):
            used = re.findall(r"[a-z_]+", grouped) + re.findall(r"([a-z_]+)=", matched)
            assert not set(used) - known - _ADDED_BY_PROMETHEUS, expression


async def test_every_metric_is_documented_and_shown_and_no_other() -> None:
    kinds = await families()
    assert set(documented()) == set(kinds)
    queried = {name for each in expressions() for name in _NAME.findall(each)}
    shown = {
        name
        for name, kind in kinds.items()
        if any(f"{name}{end}" in queried for end in _SUFFIXES[kind])
    }
    assert sorted(set(kinds) - shown) == [
        # Prometheus needs no picture of these.
        "bascule_hub_process_start_time_seconds",
        "bascule_hub_process_virtual_memory_bytes",
    ]


def test_every_alert_is_documented() -> None:
    text = GUIDE.read_text()
    for rule in rules():
        assert f"`{rule['alert']}`" in text
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_the_dashboard_has_no_overlapping_panels_and_unique_ids() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for each in panels:
        at = each["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, each["title"]
        taken |= cells


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool, of Debian's package prometheus")
@pytest.mark.parametrize("arguments", [("check", "rules", ALERTS), ("test", "rules", ALERTS_TEST)])
def test_prometheus_accepts_the_alerts_and_they_fire(arguments: tuple[Any, ...]) -> None:
    assert PROMTOOL is not None
    checked = subprocess.run(
        [PROMTOOL, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    cases: dict[str, Any] = YAML(typ="safe").load(ALERTS_TEST)
    fired = {
        case["alertname"]
        for each in cases["tests"]
        for case in each["alert_rule_test"]
        if case["exp_alerts"]
    }
    assert fired == {rule["alert"] for rule in rules()}
