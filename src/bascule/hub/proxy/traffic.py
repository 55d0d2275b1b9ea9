"""Counts what the proxy passes. Plain integers, because the proxy updates them for each piece."""

from __future__ import annotations

from collections import Counter


class ProxyTraffic:
    """The counters of one proxy."""

    __slots__ = ("requests", "to_clients", "to_sessions")

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        """Requests that ended, by the kind of endpoint (`vscode`, `apps`, `sandbox`, or `none` if
        no endpoint was reached), and the class of the answer's status (`2xx`; `aborted` if there
        was no answer)."""
        self.to_clients = 0
        """Bytes of answers, with their heads, and of tunnels."""
        self.to_sessions = 0
        """Bytes of requests, with their heads, and of tunnels."""

    def count_request(self, endpoint: str, status: int) -> None:
        """`status`: 0 if there was no answer."""
        self.requests[endpoint or "none", f"{status // 100}xx" if status else "aborted"] += 1
