"""What the case of command rules asks: how long a decision on each of many commands takes."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import bascule
from bascule.rules import CommandContext, Rules
from bascule.rules.batch import Question

_CONTEXT = CommandContext("/home/ann/project", "/home/ann/project", "/home/ann")
_RULES = Rules.of(
    allow=[["git", "log"], ["git", "diff"], ["ls"], ["grep"], ["npm", "run", "test"], ["cd"]],
    ask=[["npm", "publish"]],
    deny=[["git", "push"], ["rm"]],
)
_TEXTS = (
    "git diff HEAD~{n} --stat",
    "cd src && ls -la dir{n} | grep '\\.py$' > out.txt",
    'for f in *.{n}; do git log -1 -- "$f"; done',
    "git commit -m \"$(cat <<'E'\nChange {n}\n\nbecause of it\nE\n)\"",
    "timeout 60 npm run test -- --grep 'case {n}' 2>&1 | tail -n 50",
    "if [ -f a{n} ]; then bash -c 'git log; ls {n}'; else rm -rf b{n}; fi",
)


class RulesSubject(ABC):
    """Answers the harness; an engine says how it decides. Every text is new to the engine."""

    def __init__(self) -> None:
        self._asked = 0

    async def hello(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "versions": {"bascule": bascule.__version__}}

    async def decisions(self, count: int) -> dict[str, Any]:
        """Seconds of a decision on commands of agents, of 25 to 80 characters."""
        taken = []
        for _ in range(count):
            self._asked += 1
            text = _TEXTS[self._asked % len(_TEXTS)].replace("{n}", str(self._asked))
            question = Question(text, _RULES, _CONTEXT)
            before = perf_counter()
            self.decide(question)
            taken.append(perf_counter() - before)
        return {"median": median(taken), "95 %": quantiles(taken, n=20)[-1]}

    @abstractmethod
    def decide(self, question: Question) -> None:
        """Return when there is a verdict."""
