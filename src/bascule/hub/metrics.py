"""Metrics of the hub, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from bascule.core.kinds import ACTIONS, OBSERVATIONS

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 600)
_STATUSES: Final = ("healthy", "unhealthy", "gone")


class HubMetrics:
    """The metrics of one hub, in a separate Prometheus registry.

    Clients choose kinds and outcomes. Unknown ones are counted as `other`, so that clients cannot
    create ever more time series.
    """

    def __init__(
        self,
        *,
        windows: Callable[[], Mapping[str, int]],
        runtimes: Callable[[], int],
        pending_actions: Callable[[], int],
        error_codes: frozenset[str],
    ) -> None:
        self._registry = CollectorRegistry()
        self._outcomes = error_codes | OBSERVATIONS.keys() | {"left", "cancelled"}
        self._actions = Counter(
            "bascule_hub_actions",
            "Actions that ended, by kind; outcome is the observation's kind, or the error's code.",
            ("kind", "outcome"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "bascule_hub_action_seconds",
            "Seconds from sending an action to a window until it ends, by kind.",
            ("kind",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        by_status = Gauge(
            "bascule_hub_windows", "Windows by status.", ("status",), registry=self._registry
        )
        for status in _STATUSES:
            by_status.labels(status).set_function(partial(_count_of, windows, status))
        self._gauge("bascule_hub_runtimes", "Runtimes connected by socket.", runtimes)
        self._gauge(
            "bascule_hub_actions_under_way", "Actions that wait for an answer.", pending_actions
        )
        ProcessCollector(namespace="bascule_hub", registry=self._registry)

    def count_action(self, kind: str, outcome: str, seconds: float) -> None:
        """Count an action that ended. `outcome`: the observation's kind, or the error's code."""
        kind = kind if kind in ACTIONS else "other"
        self._actions.labels(kind, outcome if outcome in self._outcomes else "other").inc()
        self._seconds.labels(kind).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def _gauge(self, name: str, help_text: str, value: Callable[[], int]) -> None:
        Gauge(name, help_text, registry=self._registry).set_function(value)


def _count_of(windows: Callable[[], Mapping[str, int]], status: str) -> int:
    return windows().get(status, 0)
