"""The case about proxies measures what stands between its clients and its server."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.cases.case import Effort
from benchmarks.cases.latency import Latency
from benchmarks.cases.proxy import Proxy
from benchmarks.entrants import BASCULE_PROXY, CHP, RAW
from benchmarks.run import Run

pytestmark = pytest.mark.slow


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    (tmp_path / "benchmarks").symlink_to(project / "benchmarks")
    (tmp_path / "src").symlink_to(project / "src")
    return tmp_path


def test_a_round_has_a_rate_and_a_cost_of_each_kind(root: Path) -> None:
    case = Proxy()
    with Run(root, Effort(rounds=1, is_quick=True), Console(file=io.StringIO())) as run:
        run.bring_up([BASCULE_PROXY])
        run.all([case])

    (seen,) = run.results.of("proxy", BASCULE_PROXY)
    for kind in ("small", "bulk", "sockets"):
        assert seen[f"{kind}_rate"] > 0
        assert seen[f"{kind}_cpu"] > 0
    assert seen["lost"] == 0
    assert "bascule-proxy" in case.report(run.results)


def test_proxies_run_only_proxy_cases_and_others_run_none_of_them(root: Path) -> None:
    with Run(root, Effort(rounds=1, is_quick=True), Console(file=io.StringIO())) as run:
        assert run._rounds(Proxy(), RAW) == run._rounds(Latency(), BASCULE_PROXY) == 0
        assert run._rounds(Proxy(), BASCULE_PROXY) == 1


def test_a_package_that_is_not_installed_is_named(root: Path) -> None:
    with Run(root, Effort(rounds=1, is_quick=True), Console(file=io.StringIO())) as run:
        run.bring_up([CHP])

    assert "not installed" in run.results.skipped[CHP.name]
