"""Command rules of VS Code windows, in Node: each question goes through a pipe and back."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from bascule.cli.window_rules import node_program, rules_program
from bascule.rules.batch import Question
from benchmarks.peers.rules_subject import RulesSubject
from benchmarks.peers.serve import respond


class WindowRules(RulesSubject):
    async def start(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="bascule-bench-")
        self._node = subprocess.Popen(
            [node_program(), str(rules_program(Path(self._scratch.name)))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    async def stop(self) -> None:
        self._node.communicate()
        self._scratch.cleanup()

    def decide(self, question: Question) -> None:
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(f"{question.encode()}\n".encode())
        self._node.stdin.flush()
        self._node.stdout.readline()


if __name__ == "__main__":
    respond(WindowRules())
