"""The server's metrics in Prometheus' text format.

Every action is counted, so the counters are plain integers for speed. prometheus_client only
formats them, and is imported with the first request for the metrics.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prometheus_client import Metric

_BUCKET_BOUNDS: Final = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.1,
    0.5,
    1,
    5,
    10,
    30,
    60,
    120,
    600,
)


class _Durations:
    """A histogram of the durations of one kind of action."""

    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BUCKET_BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(_BUCKET_BOUNDS, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        names = [*map(str, map(float, _BUCKET_BOUNDS)), "+Inf"]
        counts, sum_so_far = [], 0
        for count in self.buckets:
            sum_so_far += count
            counts.append(float(sum_so_far))
        return list(zip(names, counts, strict=True))


class SandboxMetrics:
    """The counters of one server."""

    def __init__(self, *, open_shells: Callable[[], int], under_way: Callable[[], int]) -> None:
        self._open_shells = open_shells
        self._under_way = under_way
        self._actions: Counter[tuple[str, str]] = Counter()
        self._durations: dict[str, _Durations] = {}
        self._bytes = 0

    def answered(self, kind: str, outcome: str, *, seconds: float, size: int) -> None:
        self._actions[kind, outcome] += 1
        durations = self._durations.get(kind)
        if durations is None:
            durations = self._durations[kind] = _Durations()
        durations.add(seconds)
        self._bytes += size

    def text(self) -> tuple[bytes, str]:
        """Return the formatted metrics and their content type. Reads `/proc`: call in a thread."""
        from prometheus_client import CollectorRegistry, ProcessCollector
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        ProcessCollector(namespace="bascule", registry=registry)
        return generate_latest(registry), CONTENT_TYPE_LATEST

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; prometheus_client calls this on a registered collector."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        actions = CounterMetricFamily(
            "bascule_actions",
            "Actions answered; outcome is the observation's kind, or the error's code.",
            labels=("kind", "outcome"),
        )
        for labels, count in tuple(self._actions.items()):
            actions.add_metric(labels, count)
        yield actions
        seconds = HistogramMetricFamily(
            "bascule_action_seconds", "Seconds from request to answer.", labels=("kind",)
        )
        for kind, durations in tuple(self._durations.items()):
            seconds.add_metric((kind,), durations.cumulative(), durations.total)
        yield seconds
        yield CounterMetricFamily(
            "bascule_answer_bytes", "Bytes of answers to actions.", value=self._bytes
        )
        yield GaugeMetricFamily(
            "bascule_shells_open", "Shells that are open.", value=self._open_shells()
        )
        yield GaugeMetricFamily(
            "bascule_actions_under_way", "Actions being done now.", value=self._under_way()
        )
