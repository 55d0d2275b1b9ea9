"""Metrics of the hub, in Prometheus' text format.

`HubMetrics` counts events as they happen. `HubState` is what is true at the moment of a request for
the metrics; `state_reader` collects it.

All label values are bounded: clients choose kinds and outcomes of actions, and unknown ones are
counted as `other`, so that clients cannot create ever more time series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

import bascule
from bascule.core import errors
from bascule.core.errors import BasculeError
from bascule.core.kinds import ACTIONS, OBSERVATIONS

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_ACTION_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 600)
_START_BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600, 1800)
_DATABASE_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 10)
_RECONCILE_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_LAG_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

FailureCause = Literal["sandbox_ended", "sandbox_gone", "disk_limit"]
"""Why a running session failed. A failed start has the code of its error as the cause."""
SignInMethod = Literal["token", "link", "account"]
DatabaseOperation = Literal["read", "write"]


class HubMetrics:
    """The counters and histograms of one hub, in a separate Prometheus registry."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._error_codes = _error_codes()
        self._outcomes = self._error_codes | OBSERVATIONS.keys() | {"left", "cancelled"}
        self._actions = self._counter(
            "bascule_hub_actions",
            "Actions in windows that ended, by kind; outcome is the observation's kind, or the "
            "error's code.",
            "kind",
            "outcome",
        )
        self._action_seconds = self._histogram(
            "bascule_hub_action_seconds",
            "Seconds from sending an action to a window until it ends, by kind.",
            _ACTION_BUCKETS,
            "kind",
        )
        self._start_seconds = self._histogram(
            "bascule_hub_session_start_seconds",
            "Seconds from the start of a session until it is ready, by spawner.",
            _START_BUCKETS,
            "spawner",
        )
        self._session_failures = self._counter(
            "bascule_hub_session_failures",
            "Sessions that failed, in the phase start or running, by cause.",
            "phase",
            "cause",
        )
        self._reconcile_seconds = self._histogram(
            "bascule_hub_reconcile_seconds",
            "Seconds of one check of all sessions.",
            _RECONCILE_BUCKETS,
        )
        self._reconcile_failures = self._counter(
            "bascule_hub_reconcile_failures", "Checks of all sessions that failed."
        )
        self._reconciled_at = Gauge(
            "bascule_hub_reconcile_end_timestamp_seconds",
            "Unix time at which the latest check of all sessions succeeded; 0 before the first.",
            registry=self._registry,
        )
        self._database_seconds = self._histogram(
            "bascule_hub_database_seconds",
            "Seconds of one read or write transaction, with the wait for a connection.",
            _DATABASE_BUCKETS,
            "operation",
        )
        self._database_errors = self._counter(
            "bascule_hub_database_errors", "Reads and writes that the database failed.", "operation"
        )
        self._sign_ins = self._counter(
            "bascule_hub_sign_ins",
            "Sign-ins of browsers, by method and outcome.",
            "method",
            "outcome",
        )
        self._lag_seconds = self._histogram(
            "bascule_hub_event_loop_lag_seconds",
            "Seconds by which a timer of the event loop, set each second, was late.",
            _LAG_BUCKETS,
        )
        Gauge(
            "bascule_hub_info",
            "Always 1; the version of Bascule.",
            ("version",),
            registry=self._registry,
        ).labels(bascule.__version__).set(1)
        ProcessCollector(namespace="bascule_hub", registry=self._registry)

    def count_action(self, kind: str, outcome: str, seconds: float) -> None:
        """Count an action that ended. `outcome`: the observation's kind, or the error's code."""
        kind = kind if kind in ACTIONS else "other"
        self._actions.labels(kind, outcome if outcome in self._outcomes else "other").inc()
        self._action_seconds.labels(kind).observe(seconds)

    def count_start(self, spawner: str, seconds: float) -> None:
        """Count a session that is ready. `spawner`: one of the hub's spawners."""
        self._start_seconds.labels(spawner).observe(seconds)

    def count_failed_start(self, error: Exception) -> None:
        code = error.code if isinstance(error, BasculeError) else "internal"
        cause = code if code in self._error_codes else "other"
        self._session_failures.labels("start", cause).inc()

    def count_failed_session(self, cause: FailureCause) -> None:
        self._session_failures.labels("running", cause).inc()

    def count_reconciliation(self, seconds: float, *, end: float) -> None:
        """`end`: Unix time at which the check ended."""
        self._reconcile_seconds.observe(seconds)
        self._reconciled_at.set(end)

    def count_failed_reconciliation(self) -> None:
        self._reconcile_failures.inc()

    def count_database(self, operation: DatabaseOperation, seconds: float, *, failed: bool) -> None:
        self._database_seconds.labels(operation).observe(seconds)
        if failed:
            self._database_errors.labels(operation).inc()

    def count_sign_in(self, method: SignInMethod, *, succeeded: bool) -> None:
        self._sign_ins.labels(method, "ok" if succeeded else "refused").inc()

    def count_lag(self, seconds: float) -> None:
        self._lag_seconds.observe(seconds)

    def text(self, state: HubState) -> bytes:
        """All metrics. Reads `/proc`, so call it in a thread."""
        now = CollectorRegistry(auto_describe=False)
        now.register(_StateCollector(state))
        return generate_latest(self._registry) + generate_latest(now)

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(name, help_text, labels, registry=self._registry)

    def _histogram(
        self, name: str, help_text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(name, help_text, labels, buckets=buckets, registry=self._registry)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubState:
    """What is true of a hub now. The keys of every mapping are bounded label values."""

    windows: Mapping[str, int]
    runtimes: int
    pending_actions: int
    sessions: Mapping[str, int]
    usable_spawners: Mapping[str, bool]
    open_questions: Mapping[str, int]
    proxy_connections: Mapping[str, int]
    proxy_requests: Mapping[tuple[str, str], int]
    """By the kind of endpoint, and the class of the answer's status."""
    proxy_bytes: Mapping[str, int]
    database_connections: Mapping[str, int]
    has_database: bool
    tokens: Mapping[str, int] = field(default_factory=dict)
    """By scope; empty while the database does not answer."""
    records_bytes: int = 0


class _StateCollector(Collector):
    """Turns a `HubState` into Prometheus' metrics."""

    def __init__(self, state: HubState) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        state = self._state
        yield _gauge("bascule_hub_windows", "Windows by status.", "status", state.windows)
        yield _gauge("bascule_hub_runtimes", "Runtimes connected by socket.", value=state.runtimes)
        yield _gauge(
            "bascule_hub_actions_under_way",
            "Actions that wait for an answer.",
            value=state.pending_actions,
        )
        yield _gauge("bascule_hub_sessions", "Sessions by state.", "state", state.sessions)
        yield _gauge(
            "bascule_hub_spawner_usable",
            "Whether the spawner works on this machine.",
            "spawner",
            state.usable_spawners,
        )
        yield _gauge(
            "bascule_hub_open_questions",
            "Questions of windows and sessions that wait for a person.",
            "place",
            state.open_questions,
        )
        yield _gauge(
            "bascule_hub_proxy_connections",
            "Requests and tunnels (WebSockets) that the hub passes to sessions now.",
            "kind",
            state.proxy_connections,
        )
        requests = CounterMetricFamily(
            "bascule_hub_proxy_requests",
            "Requests to sessions that ended, by endpoint and class of the answer's status.",
            labels=("endpoint", "status"),
        )
        for labels, count in state.proxy_requests.items():
            requests.add_metric(labels, count)
        yield requests
        transferred = CounterMetricFamily(
            "bascule_hub_proxy_bytes",
            "Bytes that the hub passed to sessions and to their clients.",
            labels=("direction",),
        )
        for direction, count in state.proxy_bytes.items():
            transferred.add_metric((direction,), count)
        yield transferred
        yield _gauge(
            "bascule_hub_database_connections",
            "Connections to the database, by state.",
            "state",
            state.database_connections,
        )
        yield _gauge(
            "bascule_hub_database_up",
            "Whether the database answers.",
            value=int(state.has_database),
        )
        yield _gauge("bascule_hub_tokens", "Valid tokens by scope.", "scope", state.tokens)
        yield _gauge(
            "bascule_hub_records_bytes",
            "Bytes of the records of actions on disk.",
            value=state.records_bytes,
        )


def _gauge(
    name: str,
    help_text: str,
    label: str = "",
    values: Mapping[str, int] | None = None,
    *,
    value: int | None = None,
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, value=value, labels=(label,) if label else None)
    for key, each in (values or {}).items():
        family.add_metric((key,), each)
    return family


def _error_codes() -> frozenset[str]:
    classes = [each for each in vars(errors).values() if isinstance(each, type)]
    return frozenset(each.code for each in classes if issubclass(each, BasculeError)) | {"internal"}
