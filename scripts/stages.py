"""Run the checks and all tests in stages, and print a table of their results at the end.

At most two stages run at the same time: the preparation of programs and environments during the
checks, and the tests in a real VS Code during the ordinary tests. When one of these two stages with
tests has ended, the tests in containers follow it, in parallel with the other. The output of a
stage that was not in the foreground is printed when it has ended. The last line sums up all stages,
in the form of pytest's last line. The tests in a Kubernetes cluster are not among the stages
(`scripts/test-kubernetes`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread

from scripts.second_try import LIST, outcomes, passed_again, read_allowed, verdict

PROJECT = Path(__file__).parent.parent
PARTS = ("extension", "web")
# Two stages with tests run at the same time, so there are two processes per core: many tests wait
# for a program. With more processes, tests would exceed their time limits.
PARALLEL = ("-n", str(os.cpu_count() or 1), "--dist", "loadfile")
# Files are in the order of tests/conftest.py: a long test that starts last keeps one core busy.
OTHERS = "not editor and not docker and not kubernetes"
ORDINARY = ("-m", OTHERS, *PARALLEL, "--no-loadscope-reorder")


def main(results: Path) -> int:
    run = Run(results)
    try:
        # First, because two stages that run in parallel would both install these packages.
        is_ready = all(
            run.stage(f"{part} packages", "scripts/node_modules", part) for part in PARTS
        )
        run.begin("preparation", "scripts/test-preparation")
        is_ready = (
            is_ready
            and run.stage("checks", "scripts/check")
            and run.stage("extension", *vitest("extension", run.file("extension")))
            and run.stage("page", *vitest("web", run.file("page")))
        )
        if run.join() and is_ready:
            run.begin("editor", "scripts/test-editor", *PARALLEL)
            run.queue("containers", "scripts/test-docker")
            run.stage("tests", "scripts/twice", *ORDINARY)
            run.begin_queued()
            run.join()
    except KeyboardInterrupt:
        run.interrupt()
        run.show()
        return 130
    run.show()
    return 1 if any(stage.status for stage in run.ended) else 0


def vitest(part: str, results: Path) -> tuple[str, ...]:
    program = ("npm", "--silent", "--prefix", part, "test", "--")
    return (*program, "--reporter=default", "--reporter=junit", f"--outputFile.junit={results}")


@dataclass(frozen=True, slots=True)
class Counts:
    """The results of a stage's tests."""

    passed: int = 0
    again: tuple[str, ...] = ()
    """Those of `passed` that failed first and passed at the second try."""
    failed: tuple[str, ...] = ()
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            passed=self.passed + other.passed,
            again=self.again + other.again,
            failed=self.failed + other.failed,
            skipped=self.skipped + other.skipped,
        )


@dataclass(frozen=True, slots=True)
class Ended:
    """A stage that has ended."""

    name: str
    status: int
    seconds: float
    counts: Counts


@dataclass(frozen=True, slots=True)
class Beside:
    """A stage in parallel with others, which has not been joined."""

    name: str
    process: subprocess.Popen[bytes]
    waiting: Thread


class Run:
    """Runs stages one after the other, and others in parallel with them.

    A stage that runs tests writes their results as JUnit XML into the directory `results`:
    NAME-1.xml has the first run, NAME-2.xml the second run of the tests that failed in the first.
    """

    def __init__(self, results: Path) -> None:
        self.ended: list[Ended] = []
        self._results = results
        self._beside: list[Beside] = []
        self._queued: tuple[str, tuple[str, ...]] | None = None
        self._lock = Lock()
        """Held while stages in parallel are started, queued or interrupted."""

    def file(self, name: str, number: int = 1) -> Path:
        return self._results / f"{name}-{number}.xml"

    def stage(self, name: str, *command: str) -> bool:
        """Run a stage to its end; returns whether it passed."""
        print(f"\n== {name}", flush=True)
        began = time.monotonic()
        process = subprocess.Popen(command, cwd=PROJECT, env=self._environment(name))
        try:
            return self._wait(name, process, began)
        except KeyboardInterrupt:  # Ctrl-C has also reached the stage; wait until it ends
            self._wait(name, process, began)
            raise

    def begin(self, name: str, *command: str) -> None:
        """Start a stage in parallel with the following ones.

        It has its own process group, so that an interrupt reaches all of its processes.
        """
        with self._lock:
            self._begin(name, command)

    def queue(self, name: str, *command: str) -> None:
        """Start a stage in parallel when one that is in parallel now ends, or in `begin_queued`."""
        with self._lock:
            self._queued = name, command

    def begin_queued(self) -> None:
        """Start the stage in the queue, unless it has been started."""
        with self._lock:
            queued, self._queued = self._queued, None
            if queued is not None:
                self._begin(*queued)

    def join(self) -> bool:
        """Wait for the stages in parallel and print their output. Returns whether all passed."""
        names = []
        while self._beside:  # a stage that ends may start the one in the queue
            beside = self._beside[0]
            beside.waiting.join()
            self._beside.remove(beside)
            names.append(beside.name)
            print(f"\n== {beside.name}", flush=True)
            sys.stdout.buffer.write((self._results / beside.name).read_bytes())
            sys.stdout.flush()
        return not any(stage.status for stage in self.ended if stage.name in names)

    def interrupt(self) -> None:
        with self._lock:
            self._queued = None
            for beside in self._beside:
                if beside.process.returncode is None:
                    os.killpg(beside.process.pid, signal.SIGINT)
        self.join()

    def show(self) -> None:
        heads = ("stage", "time", "passed", "2nd try", "failed", "skipped")
        rows = [heads, *(_row(stage) for stage in self.ended)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(heads))]
        print()
        for name, *cells in rows:
            others = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
            print("  ".join((name.ljust(widths[0]), *others)))
        _show_second_tries([test for stage in self.ended for test in stage.counts.again])
        _show_failures([test for stage in self.ended for test in stage.counts.failed])
        print(f"\n{_closing(self.ended)}")

    def _begin(self, name: str, command: tuple[str, ...]) -> None:
        with (self._results / name).open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env=self._environment(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        waiting = Thread(target=self._wait_beside, args=(name, process, time.monotonic()))
        self._beside.append(Beside(name, process, waiting))
        waiting.start()

    def _wait_beside(self, name: str, process: subprocess.Popen[bytes], began: float) -> None:
        self._wait(name, process, began)
        self.begin_queued()

    def _wait(self, name: str, process: subprocess.Popen[bytes], began: float) -> bool:
        status = process.wait()
        counts = self._counts(name)
        self.ended.append(Ended(name, status, time.monotonic() - began, counts))
        return status == 0

    def _environment(self, name: str) -> dict[str, str]:
        return {**os.environ, "STAGE": name, "TEST_RESULTS": str(self._results)}

    def _counts(self, name: str) -> Counts:
        first, second = outcomes(self.file(name)), outcomes(self.file(name, 2))
        final = {**first, **second}
        results = list(final.values())
        return Counts(
            passed=results.count("passed"),
            again=tuple(passed_again(first, second)),
            failed=tuple(test for test, outcome in final.items() if outcome == "failed"),
            skipped=results.count("skipped"),
        )


def _row(stage: Ended) -> tuple[str, ...]:
    counts = stage.counts
    numbers = (counts.passed, len(counts.again), len(counts.failed), counts.skipped)
    minutes, seconds = divmod(round(stage.seconds), 60)
    name = f"{stage.name} (exit {stage.status})" if stage.status else stage.name
    return (name, f"{minutes}:{seconds:02}", *(str(each or "") for each in numbers))


def _show_second_tries(again: list[str]) -> None:
    """Print the list of tests that may need a second try, and the tests that needed one."""
    allowed = read_allowed()
    print(f"\nallowed to pass at the second try ({LIST.name}): {len(allowed) or 'none'}")
    for entry in allowed:
        print(f"  {entry.id} (since {entry.since}): {entry.reason}")
    if again:
        print("\npassed at the second try:")
    for test in again:
        print(f"  {test}: {verdict(test, allowed)}")


def _show_failures(failed: list[str]) -> None:
    """Print the tests that failed; their output is far above the table."""
    if failed:
        print("\nfailed:")
    for test in failed:
        print(f"  {test}")


def _closing(stages: list[Ended]) -> str:
    total = sum((stage.counts for stage in stages), Counts())
    said = [f"{len(total.failed)} failed"] if total.failed else []
    said += [f"{total.passed} passed", f"{total.skipped} skipped"]
    if total.again:
        said.append(f"{len(total.again)} at the second try ({', '.join(total.again)})")
    if broken := [stage.name for stage in stages if stage.status]:
        said.append(f"failed stages: {', '.join(broken)}")
    return ", ".join(said)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="bascule-tests-") as directory:
        sys.exit(main(Path(directory)))
