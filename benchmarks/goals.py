"""What we promise, held against what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.cases.language import LOOKUPS
from benchmarks.entrants import (
    AGENT_BASCULE,
    AGENT_STOCK,
    BASCULE,
    BASCULE_BRIDGE,
    BASCULE_CHECKPOINTS,
    BASCULE_CONTAINERS,
    BASCULE_HTTP,
    BASCULE_NETS,
    BASCULE_PAGE,
    BASCULE_PROGRAMS,
    BASCULE_PROXY,
    BASCULE_RULES,
    BASCULE_RULES_WINDOW,
    BASCULE_SESSIONS,
    BASCULE_TMUX,
    BASCULE_WINDOW,
    CHP,
    NGINX,
    OPENHANDS_TMUX,
    PLAIN_PROGRAMS,
    PM4PY,
    RAW,
    SNAKES,
    SWE_REX,
    Entrant,
)
from benchmarks.results import Results
from benchmarks.tables import figure, span

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Measured:
    """How to read a figure from results: over all rounds, and each round's own."""

    value: Callable[[Results], float | None]
    rounds: Callable[[Results], Sequence[float]] = lambda _: ()


@dataclass(frozen=True, slots=True)
class Goal:
    text: str
    measured: Measured
    limit: float
    unit: str = ""
    is_floor: bool = False
    """At least `limit`; else at most."""
    is_aim: bool = False
    """What we strive for; else what must hold."""

    def holds(self, results: Results) -> bool | None:
        """None when it was not measured in this run."""
        value = self.measured.value(results)
        if value is None:
            return None
        return value >= self.limit if self.is_floor else value <= self.limit

    def row(self, results: Results) -> list[str]:
        holds = {True: "yes", False: "**no**", None: "not measured"}[self.holds(results)]
        sign = "≥" if self.is_floor else "≤"
        limit = f"{sign} {figure(self.limit, self.unit)}"
        value = figure(self.measured.value(results), self.unit)
        rounds = self.measured.rounds(results)
        text = f"{self.text} (aim)" if self.is_aim else self.text
        return [text, limit, value, span(rounds) if len(rounds) > 1 else "", holds]


def ratio(case: str, entrant: Entrant, other: Entrant, name: str) -> Measured:
    both = (entrant, other)
    return Measured(
        lambda results: results.ratio(case, both, name),
        lambda results: results.ratios(case, both, name),
    )


def median(case: str, entrant: Entrant, name: str, scale: float = 1.0) -> Measured:
    def scaled(results: Results) -> float | None:
        value = results.median(case, entrant, name)
        return None if value is None else value * scale

    return Measured(
        scaled, lambda results: [v * scale for v in results.values(case, entrant, name)]
    )


def combined(case: str, entrant: Entrant, formula: Callable[..., float], *names: str) -> Measured:
    """A figure made of several of one entrant: of their medians, and of each round's own."""

    def overall(results: Results) -> float | None:
        medians = [results.median(case, entrant, name) for name in names]
        return None if None in medians else formula(*medians)

    def by_round(results: Results) -> Sequence[float]:
        rounds = ([seen.get(name) for name in names] for seen in results.of(case, entrant))
        return [formula(*values) for values in rounds if None not in values]

    return Measured(overall, by_round)


def incomplete(case: str, entrant: Entrant) -> Measured:
    """Rounds in which a byte was missing or different."""

    def counted(results: Results) -> float | None:
        rounds = results.of(case, entrant)
        return sum(not seen.get("exact") for seen in rounds) if rounds else None

    return Measured(counted)


def wrong_of_all(entrant: Entrant) -> Measured:
    """Wrong answers; unknown unless the series was run to its end."""

    def counted(results: Results) -> float | None:
        if "endurance" in results.problems and entrant.name in results.problems["endurance"]:
            return None
        return results.total("endurance", entrant, "wrong")

    return Measured(counted)


def goals(endurance: int) -> Sequence[Goal]:
    """All of them; `endurance` is the number of commands that series had."""
    here, http = BASCULE, BASCULE_HTTP
    return (
        Goal("`true` in process, of raw pty", ratio("latency", here, RAW, "median"), 3.5, "x"),
        Goal("… the same", ratio("latency", here, RAW, "median"), 2.5, "x", is_aim=True),
        Goal(
            "`true` in process, faster than OpenHands V1's default terminal",
            ratio("latency", OPENHANDS_TMUX, here, "median"),
            300,
            "x",
            is_floor=True,
        ),
        Goal(
            "`true` in process, faster than SWE-ReX",
            ratio("latency", SWE_REX, here, "median"),
            300,
            "x",
            is_floor=True,
        ),
        Goal(
            "`true` in a tmux shell, faster than OpenHands V1's, tmux too",
            ratio("latency", OPENHANDS_TMUX, BASCULE_TMUX, "median"),
            20,
            "x",
            is_floor=True,
        ),
        Goal("`true` over HTTP, with state", median("latency", http, "median", 1000), 1, " ms"),
        Goal("50 MB in process, of raw pty", ratio("output-50mb", here, RAW, "seconds"), 1.2, "x"),
        Goal("50 MB over HTTP, of raw pty", ratio("output-50mb", http, RAW, "seconds"), 2, "x"),
        Goal("50 MB in process, rounds not exact", incomplete("output-50mb", here), 0),
        Goal("50 MB over HTTP, rounds not exact", incomplete("output-50mb", http), 0),
        Goal("50 shells started, of raw pty", ratio("fleet", here, RAW, "start"), 2, "x"),
        Goal(
            "50 shells in process, commands/s",
            median("fleet", here, "commands_per_second"),
            6000,
            is_floor=True,
        ),
        Goal(
            "50 shells over HTTP, commands/s",
            median("fleet", http, "commands_per_second"),
            2500,
            is_floor=True,
        ),
        Goal(
            "idle CPU of 50 shells, in process", median("fleet", here, "idle_cpu", 100), 0.1, " %"
        ),
        Goal("idle CPU of 50 shells, server", median("fleet", http, "idle_cpu", 100), 0.1, " %"),
        Goal("server start to `/alive`", median("server", http, "seconds"), 0.5, " s"),
        Goal("idle RSS of the server", median("server", http, "rss", 1 / MIB), 60, " MiB"),
        Goal(f"wrong of {endurance:,} commands under load, in process", wrong_of_all(here), 0),
        Goal(f"wrong of {endurance:,} commands under load, HTTP", wrong_of_all(http), 0),
        Goal(
            "a script's question to its window, of a bare WebSocket echo",
            combined("bridge", BASCULE_BRIDGE, lambda ours, bare: ours / bare, "bridge", "echo"),
            2,
            "x",
        ),
        *window_goals(),
        *net_goals(),
        *checkpoint_goals(),
        *rule_goals(),
        *program_goals(),
        *proxy_goals(),
        *session_goals(),
        *page_goals(),
        Goal(
            "OpenHands V1 agent, time in its own tools, of ours",
            ratio("agent", AGENT_STOCK, AGENT_BASCULE, "tools"),
            10,
            "x",
            is_floor=True,
        ),
    )


def net_goals() -> Sequence[Goal]:
    """Ahead of the libraries people use for nets."""
    figures = {"states explored/s": "states_per_second", "firings/s": "firings_per_second"}
    return [
        Goal(
            f"{text}, of {peer.title.partition(':')[0]}",
            ratio("nets", BASCULE_NETS, peer, name),
            5,
            "x",
            is_floor=True,
        )
        for text, name in figures.items()
        for peer in (SNAKES, PM4PY)
    ]


def checkpoint_goals() -> Sequence[Goal]:
    """CPU time; a command has a checkpoint before it and one after it."""

    def spent(name: str) -> Measured:
        return median("checkpoints", BASCULE_CHECKPOINTS, name, 1000)

    return (
        Goal("checkpoints of a command, 5,000 files", spent("changed 5000"), 50, "ms", is_aim=True),
        Goal("… 50,000 files", spent("changed 50000"), 500, "ms", is_aim=True),
        Goal("first checkpoint, 50,000 files in git", spent("first 50000"), 700, "ms", is_aim=True),
    )


def rule_goals() -> Sequence[Goal]:
    """Wall time of one decision on a new text."""
    return (
        Goal(
            "decision on a command by rules, in Python",
            median("rules", BASCULE_RULES, "median", 1000),
            10,
            "ms",
        ),
        Goal("… in a window", median("rules", BASCULE_RULES_WINDOW, "median", 1000), 5, "ms"),
    )


def program_goals() -> Sequence[Goal]:
    """Beside asyncio's own programs in the same round."""

    def beside(name: str) -> Measured:
        return ratio("programs", BASCULE_PROGRAMS, PLAIN_PROGRAMS, name)

    return (
        Goal("`true` with pipes in process, of asyncio's", beside("start"), 1.5, "x", is_aim=True),
        Goal("1 GiB through pipes in process, of asyncio's", beside("copy"), 1.5, "x", is_aim=True),
        Goal(
            "memory for 1 GiB through pipes in process",
            median("programs", BASCULE_PROGRAMS, "growth"),
            16,
            " MiB",
        ),
    )


def window_goals() -> Sequence[Goal]:
    """Those of the way through hub and window, each beside what that way costs at least."""

    def window(formula: Callable[..., float], *names: str) -> Measured:
        return combined("window", BASCULE_WINDOW, formula, *names)

    return (
        Goal(
            "1 KB read in a window less a bare echo, of `workspace.fs.readFile`",
            window(lambda read, echo, bare: (read - echo) / bare, "read", "echo", "read_file"),
            1.5,
            "x",
            is_aim=True,
        ),
        Goal(
            "`true` in a window less a bare echo",
            window(lambda true, echo: (true - echo) * 1000, "true", "echo"),
            3,
            " ms",
            is_aim=True,
        ),
        Goal(
            "`true` in a window, faster than VS Code's shell integration",
            window(lambda theirs, ours: theirs / ours, "shell_integration", "true"),
            10,
            "x",
            is_floor=True,
        ),
        Goal(
            "an edit of an open file in a window, of a bare echo",
            window(lambda edit, echo: edit / echo, "edit", "echo"),
            15,
            "x",
        ),
        Goal(
            "the slowest language action in a window, beyond VS Code's command and a bare echo",
            combined("window-language", BASCULE_WINDOW, _most_beyond, *_LANGUAGE_FIGURES),
            2,
            " ms",
            is_aim=True,
        ),
    )


_LANGUAGE_FIGURES = ("echo", *(f"{name}{end}" for name in LOOKUPS for end in ("", "_bare")))


def _most_beyond(echo: float, *pairs: float) -> float:
    """The most that an action takes beyond its command and an echo, in milliseconds."""
    beyond = (action - bare - echo for action, bare in zip(pairs[::2], pairs[1::2], strict=True))
    return max(beyond) * 1000


def session_goals() -> Sequence[Goal]:
    """From the order of a session until its first command is done."""
    names = {"cold": ("nothing loaded", 600), "warm": ("forked from what is loaded", 150)}
    containers = Goal(
        "a session's first command, in a container",
        median("containers", BASCULE_CONTAINERS, "first_command", 1000),
        1000,
        " ms",
    )
    return [
        containers,
        *(
            Goal(
                f"a session's first command, {how}",
                median("sessions", BASCULE_SESSIONS, name, 1000),
                limit,
                " ms",
            )
            for name, (how, limit) in names.items()
        ),
    ]


def page_goals() -> Sequence[Goal]:
    """What somebody notices of a page that shows a lot."""
    return (
        Goal(
            "the hub's page, p95 of frames while 20,000 actions are scrolled",
            median("dashboard", BASCULE_PAGE, "frame_p95", 1000),
            50,
            " ms",
        ),
        Goal("… rows in the document", median("dashboard", BASCULE_PAGE, "rows"), 500),
        Goal(
            "… actions shown per second, 1,000 arriving",
            median("dashboard", BASCULE_PAGE, "shown_per_second"),
            900,
            is_floor=True,
        ),
        Goal(
            "… longest task that blocked the page",
            median("dashboard", BASCULE_PAGE, "longest_task", 1000),
            200,
            " ms",
            is_aim=True,
        ),
    )


def proxy_goals() -> Sequence[Goal]:
    """Processor time of the others over ours, so more is better."""
    kinds = {"small": "small request", "bulk": "large answer", "sockets": "WebSocket message"}
    floors = {"small": 0.12, "bulk": 0.5, "sockets": 0.6}
    return (
        *(
            Goal(
                f"CPU of nginx for a {what}, of our proxy's",
                ratio("proxy", NGINX, BASCULE_PROXY, f"{kind}_cpu"),
                floors[kind],
                "x",
                is_floor=True,
            )
            for kind, what in kinds.items()
        ),
        *(
            Goal(
                f"CPU of configurable-http-proxy for a {what}, of our proxy's",
                ratio("proxy", CHP, BASCULE_PROXY, f"{kind}_cpu"),
                1,
                "x",
                is_floor=True,
            )
            for kind, what in kinds.items()
        ),
    )
