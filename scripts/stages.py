"""Run the checks and all tests, stage by stage, and close with a table of how each went.

The tests in a real VS Code, which mostly wait for it, run beside the others; what they print comes
once both are done. The last line is for the whole, in words like those of pytest's own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

PROJECT = Path(__file__).parent.parent
# One for each core, beside those in VS Code: many of them wait.
ORDINARY = ["-m", "not editor and not docker", "-n", str(os.cpu_count() or 1), "--dist", "loadfile"]


def main(results: Path) -> int:
    run = Run(results)
    try:
        is_ready = (
            run.stage("checks", "scripts/check")
            and run.stage("extension", *vitest("extension", run.file("extension")))
            and run.stage("page", *vitest("web", run.file("page")))
            and run.stage("preparation", "scripts/test-preparation")
        )
        if is_ready:
            run.begin("editor", "scripts/test-editor")
            run.stage("tests", "scripts/twice", *ORDINARY)
            run.stage("containers", "scripts/test-docker")
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
    """Of a stage's tests."""

    passed: int = 0
    again: int = 0
    """Of those that passed: at the second try."""
    failed: int = 0
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
    """A stage that is over."""

    name: str
    status: int
    seconds: float
    counts: Counts


class Run:
    """Runs stages one after the other, at most one of them beside the others.

    A stage that runs tests leaves in `results` how each went, in JUnit's form: those of its first
    run in NAME-1.xml, and in NAME-2.xml those that had failed and were run once more.
    """

    def __init__(self, results: Path) -> None:
        self.ended: list[Ended] = []
        self._results = results
        self._beside: tuple[str, subprocess.Popen[bytes], Thread] | None = None

    def file(self, name: str, number: int = 1) -> Path:
        return self._results / f"{name}-{number}.xml"

    def stage(self, name: str, *command: str) -> bool:
        """Whether it went well."""
        print(f"\n== {name}", flush=True)
        began = time.monotonic()
        process = subprocess.Popen(command, cwd=PROJECT, env=self._environment(name))
        try:
            return self._wait(name, process, began)
        except KeyboardInterrupt:  # which the stage has had as well
            self._wait(name, process, began)
            raise

    def begin(self, name: str, *command: str) -> None:
        """In a process group of its own, so that an interrupt can be passed on to all of it."""
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
        waiting = Thread(target=self._wait, args=(name, process, time.monotonic()))
        waiting.start()
        self._beside = name, process, waiting

    def join(self) -> None:
        """Wait for the stage beside, and print what it did."""
        if self._beside is None:
            return
        (name, _, waiting), self._beside = self._beside, None
        waiting.join()
        print(f"\n== {name}", flush=True)
        sys.stdout.buffer.write((self._results / name).read_bytes())
        sys.stdout.flush()

    def interrupt(self) -> None:
        if self._beside is not None:
            os.killpg(self._beside[1].pid, signal.SIGINT)
            self.join()

    def show(self) -> None:
        heads = ("stage", "time", "passed", "2nd try", "failed", "skipped")
        rows = [heads, *(_row(stage) for stage in self.ended)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(heads))]
        print()
        for name, *cells in rows:
            others = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
            print("  ".join((name.ljust(widths[0]), *others)))
        print(f"\n{_closing(self.ended)}")

    def _wait(self, name: str, process: subprocess.Popen[bytes], began: float) -> bool:
        status = process.wait()
        counts = self._counts(name)
        self.ended.append(Ended(name, status, time.monotonic() - began, counts))
        return status == 0

    def _environment(self, name: str) -> dict[str, str]:
        return {**os.environ, "STAGE": name, "TEST_RESULTS": str(self._results)}

    def _counts(self, name: str) -> Counts:
        first, second = _outcomes(self.file(name)), _outcomes(self.file(name, 2))
        final = list((first | second).values())
        return Counts(
            passed=final.count("passed"),
            again=list(second.values()).count("passed"),
            failed=final.count("failed"),
            skipped=final.count("skipped"),
        )


def _outcomes(file: Path) -> dict[tuple[str, str], str]:
    """How each test went, by its class and name; none where there is no such file."""
    found: dict[tuple[str, str], str] = {}
    if not file.exists():
        return found
    for case in ET.parse(file).iter("testcase"):
        name = (case.get("classname", ""), case.get("name", ""))
        tags = {child.tag for child in case}
        if tags & {"failure", "error"}:
            found[name] = "failed"
        else:  # one that passed, and whose end failed, is there twice
            found.setdefault(name, "skipped" if "skipped" in tags else "passed")
    return found


def _row(stage: Ended) -> tuple[str, ...]:
    counts = stage.counts
    numbers = (counts.passed, counts.again, counts.failed, counts.skipped)
    minutes, seconds = divmod(round(stage.seconds), 60)
    name = f"{stage.name} (exit {stage.status})" if stage.status else stage.name
    return (name, f"{minutes}:{seconds:02}", *(str(each or "") for each in numbers))


def _closing(stages: list[Ended]) -> str:
    total = sum((stage.counts for stage in stages), Counts())
    said = [f"{total.failed} failed"] if total.failed else []
    said += [f"{total.passed} passed", f"{total.skipped} skipped"]
    if total.again:
        said.append(f"{total.again} at the second try")
    if broken := [stage.name for stage in stages if stage.status]:
        said.append(f"failed stages: {', '.join(broken)}")
    return ", ".join(said)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="bascule-tests-") as directory:
        sys.exit(main(Path(directory)))
