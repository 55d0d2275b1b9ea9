from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from bascule.sandbox.server.metrics import SandboxMetrics


def samples(metrics: SandboxMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text, kind = metrics.text()
    assert kind.startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_actions_are_counted_by_kind_and_outcome() -> None:
    metrics = SandboxMetrics(open_shells=lambda: 3, under_way=lambda: 1)
    for outcome, seconds in (("run", 0.0004), ("run", 0.7), ("shell.too_many", 900.0)):
        metrics.answered("run", outcome, seconds=seconds, size=10)

    seen = samples(metrics)
    assert seen["bascule_actions_total", (("kind", "run"), ("outcome", "run"))] == 2
    assert seen["bascule_actions_total", (("kind", "run"), ("outcome", "shell.too_many"))] == 1
    assert seen["bascule_answer_bytes_total", ()] == 30
    assert seen["bascule_shells_open", ()] == 3
    assert seen["bascule_actions_under_way", ()] == 1
    assert seen["bascule_action_seconds_count", (("kind", "run"),)] == 3
    assert seen["bascule_action_seconds_sum", (("kind", "run"),)] == 900.7004


def test_a_duration_is_in_every_bucket_it_fits() -> None:
    metrics = SandboxMetrics(open_shells=lambda: 0, under_way=lambda: 0)
    for seconds in (0.001, 0.0011, 601):
        metrics.answered("read", "read", seconds=seconds, size=0)

    seen = samples(metrics)
    buckets = {
        dict(labels)["le"]: value
        for (name, labels), value in seen.items()
        if name == "bascule_action_seconds_bucket"
    }
    assert (buckets["0.0005"], buckets["0.001"], buckets["0.0025"]) == (0, 1, 2)
    assert (buckets["600.0"], buckets["+Inf"]) == (2, 3)


def test_metrics_describe_the_process() -> None:
    seen = samples(SandboxMetrics(open_shells=lambda: 0, under_way=lambda: 0))
    assert seen["bascule_process_resident_memory_bytes", ()] > 0
