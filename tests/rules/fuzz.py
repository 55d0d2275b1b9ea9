"""Compares the commands that bash runs with those that rules see, on generated texts.

    python -m tests.rules.fuzz --texts 50000 --seed 7

Each text runs in a real bash without any program: PATH names no directory, and bash's
`command_not_found_handle` writes down the name of every command that is tried. A text passes if
rules would not allow it, or if every name that bash tried is one that deny rules find.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bascule.rules import CommandContext, CommandVerdict, Parser, Rules
from bascule.rules.judge import judge
from tests.rules.texts import TextMaker

_BATCH = 100
_TIMEOUT = 120.0

# fd 9 is a pipe that the fuzzer reads to its end, so it waits for background commands as well.
# bash writes at every newline, so a newline in a name would let other processes write in between.
# A handler that succeeds and fails by turns reaches both branches and ends every loop; a text that
# has called it 100 times is killed.
_HARNESS = r"""
FUNCNEST=20
command_not_found_handle() {
    printf '%s %s\0' "$fuzz_index" "${1//$'\n'/$'\a'}" >&9
    printf . >> "$fuzz_home/count.$fuzz_index"
    local count
    count=$(< "$fuzz_home/count.$fuzz_index")
    (( ${#count} < 100 )) || kill -KILL 0
    (( (${#count} + fuzz_index) % 3 ))
}
fuzz_home=$1
set -m
for (( fuzz_index = 0; fuzz_index < $2; fuzz_index++ )); do
    (
        cd "$fuzz_home/scratch" || exit
        PATH=/nonexistent
        ulimit -t 2 -f 1000
        eval "$(< "$fuzz_home/text.$fuzz_index")"
    ) < /dev/null > /dev/null 2> "$fuzz_home/error.$fuzz_index" 8>&- &
    wait $!
done
"""


@dataclass(frozen=True)
class Sample:
    """A text, the names that its maker gave to commands, and what bash did with it."""

    text: str
    names: Sequence[str]
    ran: frozenset[str] = frozenset()
    is_valid: bool = False


@dataclass
class Report:
    """Counts, and the texts in which rules miss a command."""

    counts: Counter[str] = field(default_factory=Counter)
    hidden: list[tuple[str, Sequence[str]]] = field(default_factory=list)


def fuzz(seed: int, texts: int) -> Report:
    """Generate and compare `texts` texts."""
    maker = TextMaker(random.Random(seed))
    report = Report()
    with ThreadPoolExecutor(max_workers=2) as pool:
        for start in range(0, texts, _BATCH):
            samples = list(_made(maker, min(_BATCH, texts - start)))
            for sample, verdict, missing in pool.map(_compared, _run(samples)):
                _count(report, sample, verdict, missing)
    return report


def _count(report: Report, sample: Sample, verdict: CommandVerdict, missing: Sequence[str]) -> None:
    report.counts["texts"] += 1
    report.counts["taken by bash"] += sample.is_valid
    report.counts["ran a command"] += bool(sample.ran)
    if verdict is CommandVerdict.ALLOW:
        report.counts["understood"] += 1
        report.counts["understood and ran a command"] += bool(sample.ran)
        if missing:
            report.hidden.append((sample.text, missing))


def _made(maker: TextMaker, count: int) -> Iterator[Sample]:
    for _ in range(count):
        text = maker.text()
        yield Sample(text, tuple(maker.names))


def _run(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Run every text in a subshell of one bash."""
    home = Path(tempfile.mkdtemp(prefix="bascule-fuzz-"))
    try:
        (home / "scratch").mkdir()
        for index, sample in enumerate(samples):
            (home / f"text.{index}").write_text(sample.text, newline="")
        ran = _logged(home, len(samples))
        return [
            Sample(each.text, each.names, frozenset(ran.get(index, ())), _is_valid(home, index))
            for index, each in enumerate(samples)
        ]
    finally:
        shutil.rmtree(home)


def _logged(home: Path, count: int) -> Mapping[int, Sequence[str]]:
    reading, writing = os.pipe()
    harness = [
        "bash",
        "--norc",
        "-c",
        f"exec 9>&{writing} {writing}>&-\n{_HARNESS}",
        "fuzz",
        str(home),
        str(count),
    ]
    process = subprocess.Popen(
        harness,
        pass_fds=[writing],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
    )
    os.close(writing)
    ran: dict[int, list[str]] = {}
    with os.fdopen(reading, errors="surrogateescape", newline="") as log, process:
        for line in log.read().split("\0")[:-1]:
            index, _, name = line.partition(" ")
            if name == "time":
                continue  # In some places bash runs the program; rules follow it in any case.
            ran.setdefault(int(index), []).append(name.replace("\a", "\n"))
    return ran


def _is_valid(home: Path, index: int) -> bool:
    errors = (home / f"error.{index}").read_text(errors="replace")
    marks = (
        "syntax error",
        "unexpected EOF",
        "here-document",
        "unexpected token",
        "bad substitution",
    )
    return not any(mark in errors for mark in marks)


def _compared(sample: Sample) -> tuple[Sample, CommandVerdict, Sequence[str]]:
    context = CommandContext("/workspace", "/workspace", "/home/ann")
    names = {*sample.names, *sample.ran}
    allowing = Rules.of(allow=[[name] for name in sorted(names) if name])
    parser = Parser()
    verdict = judge(sample.text, allowing, context, parser.parse).verdict
    denying = Rules.of(deny=[[name] for name in sorted(sample.ran) if name])
    seen = {
        part.rule.words[0]
        for part in judge(sample.text, denying, context, parser.parse).parts
        if part.rule is not None and part.verdict is CommandVerdict.DENY
    }
    return sample, verdict, sorted(sample.ran - seen)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=5000, help="how many texts; default: 5000")
    parser.add_argument("--seed", type=int, default=None, help="an integer; default: the time")
    chosen = parser.parse_args()
    seed = int(time.time()) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", flush=True)
    report = fuzz(seed, chosen.texts)
    print(json.dumps(report.counts))
    for text, missing in report.hidden:
        print(f"hides {missing}: {text!r}")
    return 1 if report.hidden else 0


if __name__ == "__main__":
    sys.exit(main())
