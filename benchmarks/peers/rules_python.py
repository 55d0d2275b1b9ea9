"""Command rules of sandboxes and of `bascule rules check`: shfmt in a process for each text."""

from __future__ import annotations

from bascule.rules import Parser
from bascule.rules.batch import Question
from bascule.rules.judge import judge
from benchmarks.peers.rules_subject import RulesSubject
from benchmarks.peers.serve import respond


class PythonRules(RulesSubject):
    async def start(self) -> None:
        self._parser = Parser()

    async def stop(self) -> None:
        """There is nothing to stop."""

    def decide(self, question: Question) -> None:
        judge(question.command, question.rules, question.context, self._parser.parse)


if __name__ == "__main__":
    respond(PythonRules())
