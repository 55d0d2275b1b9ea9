"""The hub's way into a session beside other proxies: small answers, large ones, WebSockets."""

from __future__ import annotations

from typing import Any

from benchmarks.cases.case import Case, Effort
from benchmarks.entrants import NGINX, PROXIES, Entrant
from benchmarks.results import Figures, Results
from benchmarks.tables import figure, span, table
from benchmarks.workers import Worker

CONNECTIONS = {"small": 64, "bulk": 4, "sockets": 64}
SECONDS, QUICK_SECONDS = 3.0, 1.0
MIB = 1 << 20
UNITS = {
    "small": ("small answers", "requests/s", "CPU µs each"),
    "bulk": ("16 MiB answers", "MiB/s", "CPU s a GiB"),
    "sockets": ("WebSocket messages", "round trips/s", "CPU µs each"),
}


class Proxy(Case):
    """By processor time: rates depend on who else is busy, and on how fast the clients are."""

    name = "proxy"
    title = "The proxy"

    def rounds(self, entrant: Entrant, effort: Effort) -> int:
        return effort.rounds if entrant.only == self.name else 0

    def measure(self, worker: Worker, round: int, effort: Effort) -> Figures:  # noqa: ARG002
        seconds = QUICK_SECONDS if effort.is_quick else SECONDS
        worker.ask("proxy_open")
        seen: dict[str, Any] = {"lost": 0}
        for name, connections in CONNECTIONS.items():
            told = worker.ask("proxy_load", kind=name, connections=connections, seconds=seconds)
            seen |= {f"{name}_rate": told["rate"], f"{name}_cpu": told["cpu"], "rss": told["rss"]}
            seen["lost"] += told["lost"]
        return seen

    def finish(self, worker: Worker) -> None:
        worker.ask("proxy_close")

    def report(self, results: Results) -> str:
        how = (
            "Each proxy is one process on its own core; server and clients share the other core.\n"
            "64 connections with an answer of 15 bytes, 4 with 16 MiB, 64 WebSockets with one\n"
            "message of 32 bytes in flight each. Ours checks every request's token, owner and\n"
            "origin; the others check nothing. `of nginx`: nginx's CPU time divided by theirs.\n"
        )
        return "\n".join([how, *(self._table(results, name) for name in UNITS)])

    def _table(self, results: Results, name: str) -> str:
        what, rate_unit, cpu_unit = UNITS[name]
        rows = []
        for entrant in PROXIES:
            if not results.of(self.name, entrant):
                continue
            rates = results.median(self.name, entrant, f"{name}_rate")
            cpu = results.median(self.name, entrant, f"{name}_cpu")
            rounds = results.values(self.name, entrant, f"{name}_cpu")
            share = results.ratio(self.name, (NGINX, entrant), f"{name}_cpu")
            rss = results.median(self.name, entrant, "rss")
            rows.append(
                [
                    entrant.name,
                    *(figure(rates), figure(cpu), span(rounds), figure(share)),
                    *(figure(None if rss is None else rss / MIB),),
                    figure(results.total(self.name, entrant, "lost")),
                ]
            )
        heading = [what, rate_unit, cpu_unit, "rounds", "of nginx", "RSS MiB", "connections lost"]
        return table(heading, rows)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main(["--only", Proxy.name, "--subjects", *(entrant.name for entrant in PROXIES)])
