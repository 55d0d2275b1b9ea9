"""Decides on a command text: walks through its tree and applies rules to every part. No I/O.

The parser is a parameter, because text that an inner shell runs (`bash -c`, `eval`) is parsed too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

from .command_context import CommandContext, is_harmless_device, may_be_network
from .risky_options import Risk, risks
from .rule import Rule, RuleMatch, Rules, last_part, match_rule, matches_allow
from .shell_builtins import HARMLESS, SHELL_CHANGING
from .shell_state import After, KnownShellState, merge_states
from .shells import PARSED_SHELLS, SHELLS, Source, read_shell
from .syntax import (
    Assignment,
    Block,
    BlockKind,
    Node,
    NotUnderstood,
    Pair,
    ParsedText,
    Redirection,
    SimpleCommand,
    Word,
)
from .variables import is_harmless_variable, may_be_assigned
from .verdict import CommandVerdict, Decision, Part, strictest
from .wrappers import WRAPPERS, Unwrapped, find_actions, unwrap

Parse = Callable[[str], ParsedText]

_MAX_NESTED_TEXTS = 20
_COPIES_DESCRIPTOR = re.compile(r"\d+-?|-", re.ASCII)
_WRITES = frozenset({">", ">>", ">|", "<>", "&>", "&>>", ">&"})
_READS_INPUT = frozenset({"<", "<<", "<<-", "<<<", "<&", "<>"})


def judge(text: str, rules: Rules, context: CommandContext, parse: Parse) -> Decision:
    """Decide on `text` as it would run in `context`."""
    walk = _Walk(text, rules, context, parse)
    try:
        walk.sequence(parse(text).nodes, KnownShellState(frozenset({context.cwd})))
    except RecursionError:
        walk.record(0, len(text), CommandVerdict.ASK, "the text is nested too deeply")
    parts = sorted(_strictest_by_span(walk.parts), key=lambda part: part.start)
    return Decision(parts, frozenset(walk.names))


def _strictest_by_span(parts: Sequence[Part]) -> Iterable[Part]:
    """One part for each span of the text: of several parts, one with the strictest verdict. Among
    these, a part by a rule that matches for certain comes first."""
    found: dict[tuple[str, int, int], Part] = {}
    for part in parts:
        before = found.setdefault((part.text, part.start, part.end), part)
        is_stricter = strictest([before.verdict, part.verdict]) is not before.verdict
        is_surer = part.is_by_rule and not before.is_by_rule and part.verdict is before.verdict
        if is_stricter or is_surer:
            found[part.text, part.start, part.end] = part
    return found.values()


class _Walk:
    def __init__(
        self, text: str, rules: Rules, context: CommandContext, parse: Parse, *, depth: int = 0
    ) -> None:
        self._text = text
        self._rules = rules
        self._context = context
        self._parse = parse
        self._depth = depth
        self.parts: list[Part] = []
        self.names: set[str] = set()

    def record(
        self,
        start: int,
        end: int,
        verdict: CommandVerdict,
        reason: str,
        rule: Rule | None = None,
        words: tuple[str, ...] | None = None,
        *,
        is_by_rule: bool = False,
    ) -> None:
        text = self._text[start:end]
        part = Part(text, start, end, verdict, reason, rule, words, is_by_rule=is_by_rule)
        self.parts.append(part)

    # Structure

    def sequence(self, nodes: Sequence[Node], state: KnownShellState) -> After:
        after = After(state, state)
        for node in nodes:
            after = self._node(node, after.any)
        return after

    def _node(self, node: Node, state: KnownShellState) -> After:
        match node:
            case SimpleCommand():
                return self._judge_simple_command(node, state)
            case Pair():
                return self._pair(node, state)
            case Block():
                return self._block(node, state)
            case NotUnderstood():
                self.sequence(node.inside, state)
                self.record(node.start, node.end, CommandVerdict.ASK, node.reason)
                return After(state, state)

    def _pair(self, pair: Pair, state: KnownShellState) -> After:
        if pair.operator in {"|", "|&"}:
            self._node(pair.left, state)
            self._node(pair.right, replace(state, has_input=True))
            return After(state, state)
        left = self._node(pair.left, state)
        if pair.operator == "&&":
            right = self._node(pair.right, left.success)
            return After(right.success, left.any.merged_with(right.any))
        right = self._node(pair.right, left.any)
        return After(left.success.merged_with(right.success), left.any.merged_with(right.any))

    def _block(self, block: Block, state: KnownShellState) -> After:
        self._judge_substitutions(block.words, state)
        self._judge_redirections(block.redirections, state)
        if _redirects_stdin(block.redirections):
            state = replace(state, has_input=True)
        match block.kind:
            case BlockKind.SEQUENCE:
                after = self.sequence(block.steps[0], state)
            case BlockKind.NEGATION:
                after = self.sequence(block.steps[0], state)
                after = After(after.any, after.any)
            case BlockKind.IF:
                after = self._branches(block.steps, state)
            case BlockKind.CASE:
                ends = [self.sequence(step, state).any for step in block.steps]
                after = merge_states([state, *ends])
            case BlockKind.LOOP:
                after = self._loop(block.steps, state)
            case BlockKind.SUBSHELL | BlockKind.TEST:
                self.sequence([node for step in block.steps for node in step], state)
                after = After(state, state)
        return after

    def _branches(self, steps: Sequence[Sequence[Node]], state: KnownShellState) -> After:
        """`steps` are conditions and bodies in alternation."""
        ends = []
        for condition, body in zip(steps[::2], steps[1::2], strict=True):
            tried = self.sequence(condition, state)
            ends.append(self.sequence(body, tried.success).any)
            state = tried.any
        return merge_states([*ends, state])

    def _loop(self, steps: Sequence[Sequence[Node]], state: KnownShellState) -> After:
        outside = state
        if any(_changes_directory(node) for step in steps for node in step):
            state = replace(state, is_repeated=True)
        tried = self.sequence(steps[0], state)
        body = self.sequence(steps[1], tried.success)
        after = merge_states([state, tried.any, body.any])
        if body.any.directories == outside.directories:
            return After(outside, outside)
        return after

    # Simple commands

    def _judge_simple_command(self, command: SimpleCommand, state: KnownShellState) -> After:
        values = [each.value for each in command.assignments if each.value is not None]
        self._judge_substitutions([*values, *command.words], state)
        self._judge_redirections(command.redirections, state)
        for assignment in command.assignments:
            self._judge_assignment(assignment, is_alone=not command.words)
        if not command.words:
            return After(state, state)
        if _redirects_stdin(command.redirections):
            state = replace(state, has_input=True)
        return self._judge_words(command.words, state)

    def _judge_substitutions(self, words: Sequence[Word], state: KnownShellState) -> None:
        for word in words:
            self.sequence(word.inside, state)

    def _judge_assignment(self, assignment: Assignment, *, is_alone: bool) -> None:
        start, end, name = assignment.start, assignment.end, assignment.name
        allowed = may_be_assigned(name) if is_alone else is_harmless_variable(name)
        value = assignment.value.literal if assignment.value is not None else ""
        if not allowed:
            reason = f"setting {name} may change what commands do"
            self.record(start, end, CommandVerdict.ASK, reason)
        elif _runs_as_arithmetic(value):
            reason = f"bash runs the substitution in this value if {name} is used in arithmetic"
            self.record(start, end, CommandVerdict.ASK, reason)

    def _judge_words(self, words: Sequence[Word], state: KnownShellState) -> After:
        """Decide on a command, and for a wrapper on the command that it runs."""
        in_shell = True
        while True:
            self._apply_deny_and_ask_rules(words)
            name = words[0].text
            if name is None:
                self._record_command(
                    words, CommandVerdict.ASK, "the name of the command is not known"
                )
                return After(state, state)
            self.names.add(name)
            program = last_part(name)
            if program not in WRAPPERS:
                return self._command(name, words, state, in_shell=in_shell)
            unwrapped = unwrap(program, words)
            self._judge_wrapper(name, words, unwrapped)
            if unwrapped.runs_nothing or not unwrapped.inner:
                return After(state, state)
            in_shell = in_shell and WRAPPERS[program].runs_builtins
            words = unwrapped.inner

    def _apply_deny_and_ask_rules(self, words: Sequence[Word]) -> None:
        possible_rule = None
        for verdict, rules in (
            (CommandVerdict.DENY, self._rules.deny),
            (CommandVerdict.ASK, self._rules.ask),
        ):
            for rule in rules:
                found = match_rule(rule, words)
                if found is RuleMatch.YES:
                    verb = "denies" if verdict is CommandVerdict.DENY else "asks about"
                    why = f": {rule.why}" if rule.why else ""
                    reason = f"a rule {verb} `{rule}`{why}"
                    self._record_command(words, verdict, reason, rule, is_by_rule=True)
                    return
                if found is RuleMatch.MAYBE:
                    possible_rule = possible_rule or rule
        if possible_rule is not None:
            reason = f"a word is unknown, and the rule `{possible_rule}` may match"
            self._record_command(words, CommandVerdict.ASK, reason, possible_rule)

    def _judge_wrapper(self, name: str, words: Sequence[Word], unwrapped: Unwrapped) -> None:
        for objection in unwrapped.objections:
            self._record_command(words, CommandVerdict.ASK, objection)
        for variable, word in unwrapped.assigned:
            if not is_harmless_variable(variable):
                reason = f"setting {variable} may change what commands do"
                self.record(word.start, word.end, CommandVerdict.ASK, reason)
        if unwrapped.runs_nothing and "/" not in name:
            self._record_command(words, CommandVerdict.ALLOW, f"`{name} -v` runs nothing")
        elif not unwrapped.inner or "/" in name:
            self._apply_allow_rules(words, ())

    def _command(
        self, name: str, words: Sequence[Word], state: KnownShellState, *, in_shell: bool
    ) -> After:
        """Decide on a command that is not a wrapper."""
        program = last_part(name)
        unchanged = After(state, state)
        if program in SHELLS or name == "eval":
            return self._judge_shell(name, words, state, in_shell=in_shell)
        if name == "cd":
            return self._judge_cd(words, state, in_shell=in_shell)
        if name in HARMLESS:
            self._judge_test(name, words)
        elif name in SHELL_CHANGING:
            self._apply_allow_rules(words, (), min_words=2)
            if name in {"pushd", "popd"} and in_shell:
                return After(state.in_directories(None), state.in_directories(None))
        elif name == "printf" and _may_assign(words):
            self._record_command(words, CommandVerdict.ASK, "`printf -v` sets a variable")
        else:
            self._apply_allow_rules(words, risks(program, words))
        if program == "find":
            self._judge_find(words, state)
        return unchanged

    def _apply_allow_rules(
        self, words: Sequence[Word], found_risks: Sequence[Risk], *, min_words: int = 1
    ) -> None:
        """Allow a command if a matching rule of at least `min_words` words contains all risky
        words. Otherwise the command needs approval."""
        matching = [rule for rule in self._rules.allow if matches_allow(rule, words)]
        long_enough = [rule for rule in matching if len(rule.words) >= min_words]
        for rule in long_enough:
            if all(each.index is not None and each.index < len(rule.words) for each in found_risks):
                self._record_command(words, CommandVerdict.ALLOW, f"a rule allows `{rule}`", rule)
                return
        if long_enough:
            self._record_command(words, CommandVerdict.ASK, found_risks[0].reason, long_enough[0])
        elif matching:
            reason = "it changes the shell, so a rule needs at least two words"
            self._record_command(words, CommandVerdict.ASK, reason, matching[0], is_proposable=True)
        else:
            self._record_command(
                words, CommandVerdict.ASK, "no rule allows it", is_proposable=not found_risks
            )

    def _judge_test(self, name: str, words: Sequence[Word]) -> None:
        for operator, operand in pairwise(words[1:]):
            if operator.text in {"-v", "-R"} and not _is_name(operand):
                reason = f"bash evaluates the operand of `{operator.text}`"
                self._record_command(words, CommandVerdict.ASK, reason)
                return
        self._record_command(words, CommandVerdict.ALLOW, f"`{name}` needs no rule")

    def _judge_find(self, words: Sequence[Word], state: KnownShellState) -> None:
        for action in find_actions(words):
            if action.inner:
                self._judge_words(action.inner, state)
            if not action.inner or not action.is_finished:
                self._record_command(
                    words, CommandVerdict.ASK, "an action of `find` has no command or no end"
                )

    def _judge_cd(self, words: Sequence[Word], state: KnownShellState, *, in_shell: bool) -> After:
        path = _cd_target(words)
        targets = None if path is None else self._possible_paths(path, state)
        if targets is not None and all(self._may_enter(each, state) for each in targets):
            self._record_command(words, CommandVerdict.ALLOW, "`cd` in the workspace needs no rule")
        else:
            targets = None
            reason = "`cd` leaves the workspace, or its target is not known"
            self._record_command(words, CommandVerdict.ASK, reason)
        if not in_shell:
            return After(state, state)
        entered = state.in_directories(None if targets is None else frozenset(targets))
        return After(entered, entered.merged_with(state))

    def _may_enter(self, path: str, state: KnownShellState) -> bool:
        # In the next round of a loop, a command before `cd .git` would write there.
        is_protected = state.is_repeated and self._context.write_objection(path) is not None
        return self._context.contains(path) and not is_protected

    def _judge_shell(
        self, name: str, words: Sequence[Word], state: KnownShellState, *, in_shell: bool
    ) -> After:
        unchanged = After(state, state)
        if name == "eval":
            return self._judge_eval(words, state, in_shell=in_shell)
        call = read_shell(name, words)
        for objection in call.objections:
            self._record_command(words, CommandVerdict.ASK, objection)
        match call.source:
            case Source.TEXT if last_part(name) in PARSED_SHELLS:
                if "/" in name:
                    self._apply_allow_rules(words, ())
                text = call.text.text if call.text else None
                self._judge_text(words, text, state, is_bash=last_part(name) == "bash")
            case Source.TEXT:
                self._record_command(
                    words, CommandVerdict.ASK, f"text for `{name}` is not understood"
                )
            case Source.INPUT if state.has_input:
                self._record_command(
                    words, CommandVerdict.ASK, "the shell reads its commands from its input"
                )
            case Source.INPUT | Source.SCRIPT if not call.objections:
                self._apply_allow_rules(words, ())
        return unchanged

    def _judge_eval(
        self, words: Sequence[Word], state: KnownShellState, *, in_shell: bool
    ) -> After:
        operands = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
        texts = [word.text for word in operands]
        text = None if None in texts else " ".join(each or "" for each in texts)
        after = self._judge_text(words, text, state)
        return after if in_shell else After(state, state)

    def _judge_text(
        self,
        words: Sequence[Word],
        text: str | None,
        state: KnownShellState,
        *,
        is_bash: bool = True,
    ) -> After:
        if text is None:
            self._record_command(
                words, CommandVerdict.ASK, "the text that the shell runs is not known"
            )
            return After(state.in_directories(None), state.in_directories(None))
        if self._depth == _MAX_NESTED_TEXTS:
            # A limit, because each level starts a parser process.
            self._record_command(
                words, CommandVerdict.ASK, "the texts that shells run are nested too deeply"
            )
            return After(state.in_directories(None), state.in_directories(None))
        inner = _Walk(text, self._rules, self._context, self._parse, depth=self._depth + 1)
        parsed = self._parse(text)
        after = inner.sequence(parsed.nodes, state)
        if not is_bash:
            inner.sequence(parsed.bash_only, state)
        start, end = words[0].start, words[-1].end
        self.parts.extend(replace(part, start=start, end=end) for part in inner.parts)
        self.names |= inner.names
        return after

    # Redirections

    def _judge_redirections(
        self, redirections: Sequence[Redirection], state: KnownShellState
    ) -> None:
        for each in redirections:
            self._judge_substitutions([each.target], state)
            if each.body is not None and each.body is not each.target:
                self._judge_substitutions([each.body], state)
            reason = self._redirection_problem(each, state)
            if reason is not None:
                self.record(each.start, each.end, CommandVerdict.ASK, reason)

    def _redirection_problem(self, redirection: Redirection, state: KnownShellState) -> str | None:
        target = redirection.target
        variable = redirection.descriptor.strip("{}")
        if variable != redirection.descriptor and not may_be_assigned(variable):
            return f"setting {variable} may change what commands do"
        if redirection.operator == "<":
            is_known = target.text is not None
            if may_be_network(target.text or target.prefix, is_known=is_known):
                return "reading from this path opens a network connection"
        if redirection.operator not in _WRITES:
            return None
        if target.text is None:
            return "the file that is written to is not known"
        if redirection.operator == ">&" and _COPIES_DESCRIPTOR.fullmatch(target.text):
            return None
        return self._write_objection(target.text, state)

    def _write_objection(self, path: str, state: KnownShellState) -> str | None:
        if is_harmless_device(path):
            return None
        targets = self._possible_paths(path, state)
        if targets is None:
            return "the directory of the file that is written to is not known"
        objections = (self._context.write_objection(each) for each in targets)
        return next((each for each in objections if each is not None), None)

    def _possible_paths(self, path: str, state: KnownShellState) -> Sequence[str] | None:
        """The possible absolute paths of a path, or None if they are unknown."""
        if path.startswith("/"):
            return [path]
        if state.directories is None:
            return None
        # A later round of a loop may apply `..` in another directory, or to links that are unknown
        # here.
        has_links = self._context.resolve_links is not None
        if state.is_repeated and (has_links or ".." in path.split("/")):
            return None
        return [f"{each}/{path}" for each in sorted(state.directories)]

    def _record_command(
        self,
        words: Sequence[Word],
        verdict: CommandVerdict,
        reason: str,
        rule: Rule | None = None,
        *,
        is_proposable: bool = False,
        is_by_rule: bool = False,
    ) -> None:
        known = tuple(
            word.text or "" for word in takewhile(lambda each: each.text is not None, words)
        )
        self.record(
            words[0].start,
            max(words[0].end, *(word.end for word in words)),
            verdict,
            reason,
            rule,
            known if is_proposable else None,
            is_by_rule=is_by_rule,
        )


def _redirects_stdin(redirections: Sequence[Redirection]) -> bool:
    return any(
        each.operator in _READS_INPUT and each.descriptor in {"", "0"} for each in redirections
    )


def _changes_directory(node: Node) -> bool:
    """Whether a node may change the directory of this shell. Any word `cd` counts, because a
    wrapper may run it."""
    match node:
        case SimpleCommand():
            return any(word.text in {"cd", "pushd", "popd", "eval"} for word in node.words)
        case Pair():
            return node.operator in {"&&", "||"} and (
                _changes_directory(node.left) or _changes_directory(node.right)
            )
        case Block() if node.kind is not BlockKind.SUBSHELL:
            return any(_changes_directory(each) for step in node.steps for each in step)
    return False


def _cd_target(words: Sequence[Word]) -> str | None:
    """The only operand of `cd`. None if `cd` has options, another number of operands, or `-`."""
    operands = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
    path = operands[0].text if len(operands) == 1 else None
    return path if path and not path.startswith("-") else None


def _may_assign(words: Sequence[Word]) -> bool:
    """Whether the first word of `printf` may be `-v`, which takes two more words."""
    if len(words) < 2:
        return False
    first = words[1]
    if first.text is not None:
        return first.text.startswith("-v")
    if first.prefix.startswith("-v"):
        return True
    return "-v".startswith(first.prefix) and (first.is_many or len(words) > 2)


def _runs_as_arithmetic(value: str) -> bool:
    """Whether a value has a substitution in a subscript. If bash evaluates the value as arithmetic,
    bash runs this substitution."""
    subscript = value.partition("[")[2]
    return "$" in subscript or "`" in subscript


def _is_name(word: Word) -> bool:
    return word.text is not None and re.fullmatch(r"[A-Za-z_]\w*", word.text, re.ASCII) is not None
