"""Decides on every action of a sandbox by rules, before the action has any effect."""

from __future__ import annotations

import asyncio
import os.path
import shlex
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Literal

from bascule.core.actions import (
    Action,
    CmdRun,
    FileEdit,
    FileWrite,
    IPythonRun,
    MakeDir,
    Remove,
    RemoveDir,
)
from bascule.core.contracts import CommandCheck, CommandPlace
from bascule.core.errors import ConsentDenied, DeniedByRule
from bascule.core.observations import Nothing, Observation
from bascule.core.visible_text import visible
from bascule.rules import CommandContext, CommandVerdict, Decision, Parser, Part, Rules
from bascule.rules.judge import judge
from bascule.rules.rule_files import RuleOwner

from .blocking_calls import InThread
from .command_questions import Ask, CommandQuestion
from .command_rules import CommandRules, WorkspaceRules
from .rule_counts import RuleCounts, deciding_rules

_HARMLESS_KEYS: Final = frozenset({"C-c", "C-d", "C-z", "C-\\"})
"""Keys that end or stop a program."""
_TYPES_RULES_CAN_JUDGE: Final = frozenset({"file", "builtin", "keyword", ""})
"""Types of command names, as `type -t` prints them, for which a rule about the name is reliable.
The types `alias` and `function` are not included, because such a name can run anything. The type is
empty if bash does not know the name."""
_MAX_SHOWN: Final = 200
"""Maximum characters of a denied command in messages."""

_Writing = FileWrite | FileEdit | MakeDir | Remove | RemoveDir


Execute = Callable[[CmdRun, CommandCheck | None], Awaitable[Observation]]


@dataclass(frozen=True)
class _ShownDecision:
    """A decision and its directory, as shown to the person who approves it."""

    decision: Decision
    cwd: str


class _ApprovalNeeded(Exception):
    """Not a failure: a person may still allow the command."""

    def __init__(self, shown: _ShownDecision) -> None:
        super().__init__()
        self.shown = shown


@dataclass(frozen=True)
class _ProgramStart:
    """The start of a program, which no alias or function of a shell can replace."""

    cwd: str

    async def command_types(self, names: Sequence[str]) -> Sequence[str]:
        return ["file"] * len(names)


class CommandGate:
    """Applies rules to all actions of one sandbox, however they were sent.

    The gate decides on a command when the shell is ready to run it, with the shell's own directory.
    While a person is asked, the shell can run other commands. So the gate decides again after the
    answer. The command runs only if the decision is still the same as the person saw.
    """

    def __init__(
        self, rules: CommandRules, *, workspace: Path, home: str, in_thread: InThread
    ) -> None:
        self.ask: Ask | None = None
        """Asks a person; None if nobody can be asked."""
        self._rules = rules
        self._workspace = str(workspace)
        self._home = home
        self._in_thread = in_thread
        self._parser = Parser()
        self._workspace_rule_file = WorkspaceRules(workspace, self._parser)
        self._lock = threading.Lock()
        """Only one thread at a time may use the parser and the rules of the workspace."""
        self._changed = asyncio.Event()
        self._counts = {owner: RuleCounts(owner) for owner in RuleOwner}

    @property
    def rules(self) -> CommandRules:
        return self._rules

    def change(self, rules: CommandRules) -> None:
        """Use other rules from now on. Actions that wait for an answer are decided on again."""
        if rules == self._rules:
            return
        self._rules = rules
        self._changed.set()
        self._changed = asyncio.Event()

    async def report(self) -> list[dict[str, Any]]:
        """The rules, who made them, and how many commands each decided on.

        An allow rule counts commands that ran, an ask rule those that a person had to approve, a
        deny rule those that were refused. Raises `InvalidSetting` if the file of the workspace is
        not valid.
        """
        workspace_rules = await self._in_thread(self._workspace_rules)
        return [
            *self._counts[RuleOwner.PERSON].report(self._rules.rules),
            *self._counts[RuleOwner.WORKSPACE].report(workspace_rules),
        ]

    async def run(self, action: CmdRun, execute: Execute) -> Observation:
        """Execute a command or input with `execute`, if it may run.

        Raises `DeniedByRule` or `ConsentDenied`. The time that a person needs to answer is part of
        the action's timeout, because the sender stops waiting after that timeout.
        """
        if not action.command.strip():
            return await execute(action, None)  # reads the output of a running program
        if action.is_input:
            if action.command not in _HARMLESS_KEYS:
                why = "it is input to a running program, and rules can allow only commands"
                await self._ask_if_strict(action, action.command, _whole(action.command, why))
            return await execute(action, None)
        approved: _ShownDecision | None = None
        has_asked = False
        started = time.monotonic()
        while True:
            with_time_left = action
            if action.timeout is not None and approved is not None:
                waited = time.monotonic() - started
                with_time_left = replace(action, timeout=max(action.timeout - waited, 1.0))
            try:
                return await execute(with_time_left, partial(self._check, action, approved))
            except _ApprovalNeeded as needed:
                shown = needed.shown
                if not has_asked:
                    self._count(shown.decision, CommandVerdict.ASK, action.command)
                has_asked = True
                question = CommandQuestion.about_command(
                    action, action.command, shown.decision, timeout=self._question_timeout(action)
                )
                answer = await self._ask_person(question)
                approved = shown if answer == "approved" else None

    async def judge(self, text: str, cwd: str) -> tuple[CommandVerdict, str]:
        """The verdict on a command that a program runs itself in `cwd`, and the reason. Asks
        nobody. Without a rule for a part, the verdict is `ask`, also where every command runs."""
        decision = await self._in_thread(self._decide_by_rules, text, cwd or self._workspace)
        self._count(decision, decision.verdict, text)
        deciding = [part for part in decision.parts if part.verdict is decision.verdict]
        return decision.verdict, "; ".join(visible(part.reason) for part in deciding)[:_MAX_SHOWN]

    async def admit_program(self, action: CmdRun, cwd: str) -> None:
        """Raises `DeniedByRule` or `ConsentDenied` if a program may not start in `cwd`. `action`
        has the program's words as a command."""

        async def only_check(_action: CmdRun, check: CommandCheck | None) -> Observation:
            if check is not None:
                await check(_ProgramStart(cwd))
            return Nothing()

        await self.run(action, only_check)

    async def admit_cell(self, action: IPythonRun) -> None:
        """Raises `ConsentDenied` if a cell may not run."""
        why = "it is a cell of IPython, and rules can allow only commands"
        await self._ask_if_strict(action, action.code, _whole(action.code, why))

    async def admit_write(self, action: Action, cwd: str) -> None:
        """Raises `ConsentDenied` if a file action may not change a protected file."""
        if not isinstance(action, _Writing):
            return
        if isinstance(action, FileEdit) and action.command == "view":
            return
        await self.admit_changes(action, [str(Path(cwd, action.path))])

    @property
    def protects_files(self) -> bool:
        """Whether changes of protected files need approval."""
        return self._is_strict

    async def admit_changes(self, action: Action, paths: Sequence[str]) -> None:
        """Raises `ConsentDenied` if one of the files that an action changes is protected.
        `paths`: absolute."""
        if not self.protects_files:
            return
        found = await self._in_thread(self._protected, paths)
        if found:
            text = "\n".join(path for path, _ in found)
            starts = accumulate((len(path) + 1 for path, _ in found), initial=0)
            parts = [
                Part(path, start, start + len(path), CommandVerdict.ASK, why)
                for (path, why), start in zip(found, starts, strict=False)
            ]
            await self._ask_if_strict(action, text, parts)

    # Decisions ------------------------------------------------------------------------------

    async def _check(
        self, action: CmdRun, approved: _ShownDecision | None, shell: CommandPlace
    ) -> None:
        """Raises unless the command may run in `shell` now."""
        cwd = shell.cwd
        change_to = action.cwd or ""
        if change_to and action.is_static:
            change_to = cwd  # a static shell has already started in `action.cwd`
        decision = await self._in_thread(self._decide, action.command, cwd, change_to)
        if decision.verdict is CommandVerdict.ALLOW and self._is_strict:
            decision = await _ask_about_shell_names(decision, shell)
        match decision.verdict:
            case CommandVerdict.DENY:
                self._count(decision, CommandVerdict.DENY, action.command)
                raise _denied(decision)
            case CommandVerdict.ASK if approved != (shown := _ShownDecision(decision, cwd)):
                raise _ApprovalNeeded(shown)
        self._count(decision, CommandVerdict.ALLOW, action.command)

    def _count(self, decision: Decision, verdict: CommandVerdict, text: str) -> None:
        for rule in deciding_rules(decision, verdict):
            is_workspace_rule = self._workspace_rule_file.has_made(rule)
            owner = RuleOwner.WORKSPACE if is_workspace_rule else RuleOwner.PERSON
            self._counts[owner].add(verdict, rule, text)

    @property
    def _is_strict(self) -> bool:
        return self._rules.default is CommandVerdict.ASK

    def _decide(self, text: str, cwd: str, change_to: str) -> Decision:
        """Decide on a command in the directory `cwd`. If `change_to` is not empty, the shell first
        changes to that directory, relative to `cwd`. Blocks the calling thread."""
        with self._lock:
            rules = self._rules.rules + self._workspace_rule_file.rules()
            parts: Sequence[Part] = ()
            if change_to:
                entering = self._judge(f"cd -- {shlex.quote(change_to)}", rules, cwd)
                parts = [each for each in entering.parts if each.verdict is CommandVerdict.ASK]
                cwd = os.path.normpath(Path(cwd, change_to))
            decision = self._judge(text, rules, cwd)
        decision = replace(decision, parts=[*parts, *decision.parts])
        return decision if self._is_strict else decision.with_unmatched_parts_allowed()

    def _decide_by_rules(self, text: str, cwd: str) -> Decision:
        """What the rules alone say. Blocks the calling thread."""
        with self._lock:
            rules = self._rules.rules + self._workspace_rule_file.rules()
            return self._judge(text, rules, cwd)

    def _workspace_rules(self) -> Rules:
        with self._lock:
            return self._workspace_rule_file.rules()

    def _judge(self, text: str, rules: Rules, cwd: str) -> Decision:
        return judge(text, rules, self._context(cwd), self._parser.parse)

    def _context(self, cwd: str) -> CommandContext:
        return CommandContext(self._workspace, cwd, self._home, resolve_links=os.path.realpath)

    def _protected(self, paths: Sequence[str]) -> list[tuple[str, str]]:
        """The protected files of `paths`, each with the reason. Blocks the calling thread."""
        found = ((path, self._protection(path)) for path in paths)
        return [(path, why) for path, why in found if why is not None]

    def _protection(self, path: str) -> str | None:
        """Why a file in the workspace is protected; None if it is not. Blocks the calling
        thread."""
        context = self._context(self._workspace)
        if context.contains(path):
            return context.write_objection(path)
        # A link outside the workspace may lead into it.
        real = replace(context, workspace=os.path.realpath(self._workspace))
        path = os.path.realpath(path)
        return real.write_objection(path) if real.contains(path) else None

    # Questions ------------------------------------------------------------------------------

    async def _ask_if_strict(self, action: Action, text: str, parts: Sequence[Part]) -> None:
        """Ask a person about an action that rules cannot judge; no effect if the rules are not
        strict. Raises `ConsentDenied` if the action may not run."""
        question = CommandQuestion(
            action=action, text=text, parts=parts, timeout=self._question_timeout(action)
        )
        while self._is_strict:
            if await self._ask_person(question) == "approved":
                return

    def _question_timeout(self, action: Action) -> float:
        max_timeout = self._rules.question_timeout
        return max_timeout if action.timeout is None else min(max_timeout, action.timeout)

    async def _ask_person(self, question: CommandQuestion) -> Literal["approved", "rules_changed"]:
        """Ask a person and wait for the answer. After `rules_changed`, the caller has to apply the
        new rules. Raises `ConsentDenied` if the person refuses or does not answer.
        """
        if self.ask is None:
            raise ConsentDenied(
                f"Not done, because it needs approval and nobody can be asked here: "
                f"{question.reason}"
            )
        changed = asyncio.ensure_future(self._changed.wait())
        asking = asyncio.ensure_future(self.ask(question))
        try:
            async with asyncio.timeout(question.timeout):
                await asyncio.wait({changed, asking}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise ConsentDenied(
                f"Not done, because nobody answered within {question.timeout:g} seconds. "
                f"It needs approval: {question.reason}"
            ) from None
        finally:
            changed.cancel()
            if not asking.done():
                asking.cancel()
                await asyncio.wait({asking})
        if not asking.done() or asking.cancelled():
            return "rules_changed"
        if asking.result() == "deny":
            raise ConsentDenied(f"A person refused this: {question.reason}")
        return "approved"


def _whole(text: str, why: str) -> Sequence[Part]:
    """One part, which is the whole text."""
    return [Part(text, 0, len(text), CommandVerdict.ASK, why)]


async def _ask_about_shell_names(decision: Decision, shell: CommandPlace) -> Decision:
    """The decision, with an additional part of verdict ASK for each command name that rules cannot
    judge: an alias, a function, or a name whose type bash does not report."""
    names = sorted(decision.names)
    types = await shell.command_types(names) if names else ()
    parts = [
        Part(name, 0, 0, CommandVerdict.ASK, _describe_name(name, found))
        for name, found in zip(names, types, strict=True)
        if found not in _TYPES_RULES_CAN_JUDGE
    ]
    return replace(decision, parts=[*decision.parts, *parts]) if parts else decision


def _describe_name(name: str, found: str) -> str:
    if found in {"function", "alias"}:
        return f"`{name}` is a{'n' if found == 'alias' else ''} {found} of this shell, no program"
    return f"bash does not say what `{name}` is"


def _denied(decision: Decision) -> DeniedByRule:
    part = next(each for each in decision.parts if each.verdict is CommandVerdict.DENY)
    rule = str(part.rule) if part.rule is not None else ""
    origin = f" ({part.rule.origin})" if part.rule is not None and part.rule.origin else ""
    return DeniedByRule(
        f"Not run: `{visible(part.text)[:_MAX_SHOWN]}`: {part.reason}{origin}",
        rule=rule,
        part=part.text[:_MAX_SHOWN],
    )
