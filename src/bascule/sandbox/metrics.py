"""What the server counts, in Prometheus' text form."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 600)


class Metrics:
    """The counters of one server, in a registry of their own."""

    def __init__(self, *, open_shells: Callable[[], int], under_way: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        self._actions = Counter(
            "bascule_actions",
            "Actions answered, by kind; outcome is the observation's kind, or the error's code.",
            ("kind", "outcome"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "bascule_action_seconds",
            "Seconds from the request to the answer, by kind.",
            ("kind",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._bytes = Counter(
            "bascule_answer_bytes", "Bytes of answers to actions.", registry=self._registry
        )
        self._gauge("bascule_shells_open", "Shells that are open.", open_shells)
        self._gauge("bascule_actions_under_way", "Actions being done now.", under_way)
        ProcessCollector(namespace="bascule", registry=self._registry)
        # Looking a child up by its labels costs more than counting does.
        self._by_outcome: dict[tuple[str, str], Counter] = {}
        self._by_kind: dict[str, Histogram] = {}

    def answered(self, kind: str, outcome: str, *, seconds: float, size: int) -> None:
        counter = self._by_outcome.get((kind, outcome))
        if counter is None:
            counter = self._by_outcome[kind, outcome] = self._actions.labels(kind, outcome)
        counter.inc()
        histogram = self._by_kind.get(kind)
        if histogram is None:
            histogram = self._by_kind[kind] = self._seconds.labels(kind)
        histogram.observe(seconds)
        self._bytes.inc(size)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def _gauge(self, name: str, help_text: str, value: Callable[[], int]) -> None:
        Gauge(name, help_text, registry=self._registry).set_function(value)
