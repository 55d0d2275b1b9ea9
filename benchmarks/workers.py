"""The harness's side of a worker: start it, ask it, end it and all it started."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import processes
from benchmarks.entrants import Entrant

HELLO_TIMEOUT = 180.0
STOP_TIMEOUT = 15.0


class WorkerError(Exception):
    """A question got no figure; the message is the reason, for the report."""


class Declined(WorkerError):
    """The subject cannot do this by design."""


class WorkerLost(WorkerError):
    """The worker ended or did not answer in time, and was ended."""


class Worker:
    """One subject in a process of its own, with an empty home and an empty workspace."""

    def __init__(
        self, entrant: Entrant, python: Path, root: Path, handed: Sequence[str] = ()
    ) -> None:
        """`handed` goes to the worker behind its own arguments."""
        self.entrant = entrant
        self.mark = uuid.uuid4().hex
        self._home = tempfile.TemporaryDirectory(prefix=f"bench-{entrant.name}-")
        self._log_path = root / ".bench" / "logs" / f"{entrant.name}.log"
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        self._log = self._log_path.open("ab")
        workspace = Path(self._home.name, "workspace")
        workspace.mkdir()
        self._process = subprocess.Popen(
            [python, "-m", f"benchmarks.peers.{entrant.module}", *entrant.arguments, *handed],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=workspace,
            env=environment(home=self._home.name, mark=self.mark, root=root),
        )
        self.pid = self._process.pid
        self.hello: Mapping[str, Any] = {}

    def greet(self) -> None:
        """Wait until the subject is loaded and ready; raises `WorkerError` when it cannot be."""
        self.hello = self.ask("hello", timeout=HELLO_TIMEOUT)

    def ask(self, question: str, *, timeout: float = 180.0, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        line = json.dumps({"ask": question, "with": arguments}) + "\n"
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerLost(self._stderr_tail()) from None
        reply = self._receive(question, timeout)
        if "refused" in reply:
            raise Declined(reply["refused"])
        if "failed" in reply:
            raise WorkerError(reply["failed"])
        answer: dict[str, Any] = reply["answer"]
        return answer

    def family(self) -> frozenset[int]:
        """Every process this worker consists of, shells and servers included."""
        return processes.family(self.pid, self.mark)

    @property
    def serving_family(self) -> frozenset[int]:
        """The same without the client, where the work is done by a server."""
        return self.family() - ({self.pid} if self.hello.get("server_pid") else set())

    def stop(self, patience: float = STOP_TIMEOUT) -> None:
        """Ask the worker to end; end by force what has not ended in time. Twice is fine."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        processes.end(self.pid, self.mark)
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        self._log.close()
        self._home.cleanup()

    def _receive(self, question: str, timeout: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], timeout)
        if not ready:
            raise WorkerLost(f"no answer to {question!r} in {timeout:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise WorkerLost(self._stderr_tail())
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _stderr_tail(self) -> str:
        lines = self._log_path.read_text(errors="replace").strip().splitlines()
        return f"the worker ended: {lines[-1] if lines else 'without a word'}"


def environment(*, home: str, mark: str, root: Path) -> dict[str, str]:
    """The same for all: no rc files, no telemetry, no look-ups on the network."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": home,
        "PYTHONPATH": str(root),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "TMUX_TMPDIR": home,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENHANDS_SUPPRESS_BANNER": "1",
        "ANONYMIZED_TELEMETRY": "false",
        "DO_NOT_TRACK": "1",
        processes.MARK: mark,
    }
