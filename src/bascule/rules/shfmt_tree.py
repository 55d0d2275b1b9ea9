"""Converts the JSON tree of `shfmt --to-json` to the tree of `syntax`. No I/O.

This module lists every supported kind of node and field. Anything else becomes `NotUnderstood`. So
new syntax in a newer shfmt needs approval, and cannot hide a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

from . import strict_filter
from .quoting import Characters
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

Json: TypeAlias = Mapping[str, Any]

_REDIRECTIONS = frozenset({"<", ">", ">>", "<>", "<&", ">&", ">|", "<<", "<<-", "<<<", "&>", "&>>"})
_STATEMENT = frozenset(
    {"Pos", "End", "Position", "Semicolon", "Comments", "Cmd", "Redirs", "Negated", "Background"}
)
_PARAMETER = frozenset(
    {"Type", "Pos", "End", "Dollar", "Rbrace", "Short", "Length", "Param", "Slice", "Repl", "Exp"}
)
_BEFORE_COMMENT = frozenset(" \t\n;&|(")
_EVALUATED_OPERANDS: Mapping[str, Callable[[str], bool]] = {
    **dict.fromkeys(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"), strict_filter.is_plain_operand),
    **dict.fromkeys(("-v", "-R"), strict_filter.is_plain_name),
}
"""Operators of `[[ ]]` whose operands bash evaluates, and which operands are harmless."""


def build(text: str, tree: Json) -> ParsedText:
    """Convert shfmt's `tree` of `text`."""
    return _Builder(text).script(tree)


class _Builder:
    """Holds the text, because shfmt's positions count bytes and some checks need the source."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._characters: Mapping[int, int] | None = None
        if not text.isascii():
            bytes_before = accumulate((len(each.encode()) for each in text), initial=0)
            self._characters = {offset: index for index, offset in enumerate(bytes_before)}
        self._literal: list[tuple[int, int]] = []
        self._substitutions = 0
        self._bash_only: list[NotUnderstood] = []

    def script(self, tree: Json) -> ParsedText:
        nodes = self._nodes(tree.get("Stmts"))
        for position in strict_filter.continuations(self._text):
            if not any(start <= position < end for start, end in self._literal):
                reason = "a line continuation that does not follow a blank is not understood"
                nodes = (*nodes, NotUnderstood(reason, position, position + 1))
        if "#" in self._text:
            nodes = (*nodes, *self._comments(tree))
        return ParsedText(nodes, self._bash_only)

    def _only_in_bash(self, construct: str, span: tuple[int, int]) -> None:
        self._bash_only.append(NotUnderstood(f"sh has no {construct}", *span))

    def _comments(self, tree: Any) -> Iterator[Node]:
        """Comments of shfmt that bash parses differently: as part of a word, or as two lines."""
        if isinstance(tree, list):
            for each in tree:
                yield from self._comments(each)
        elif isinstance(tree, dict):
            if "Hash" in tree:
                start, end = self._span(tree)
                follows_word = start > 0 and self._text[start - 1] not in _BEFORE_COMMENT
                if follows_word or "\n" in self._text[start:end]:
                    yield NotUnderstood("this comment is not understood", start, end)
            else:
                for each in tree.values():
                    yield from self._comments(each)

    # Positions

    def _span(self, node: Json) -> tuple[int, int]:
        return self._offset(node["Pos"]), self._offset(node["End"])

    def _offset(self, position: Json) -> int:
        offset: int = position["Offset"]
        return offset if self._characters is None else self._characters[offset]

    def _source(self, node: Json) -> str:
        start, end = self._span(node)
        return self._text[start:end]

    # Commands

    def _nodes(self, statements: Sequence[Json] | None) -> tuple[Node, ...]:
        return tuple(self._statement(each) for each in statements or ())

    def _statement(self, statement: Json) -> Node:
        redirections = tuple(self._redirections(statement.get("Redirs") or ()))
        node = self._command(statement.get("Cmd"), redirections, self._span(statement))
        start, end = self._span(statement)
        if statement.get("Negated"):
            node = Block(BlockKind.NEGATION, ((node,),), start, end)
        if statement.get("Background"):
            node = Block(BlockKind.SUBSHELL, ((node,),), start, end)
        if set(_nonempty_keys(statement)) - _STATEMENT:
            return NotUnderstood("this kind of statement is not understood", start, end, (node,))
        return node

    def _command(
        self, command: Json | None, redirections: tuple[Redirection, ...], span: tuple[int, int]
    ) -> Node:
        if command is None:
            return SimpleCommand((), *span, redirections=redirections)
        match command["Type"]:
            case "CallExpr":
                words = tuple(self._word(each) for each in command.get("Args") or ())
                return self._simple(words, command.get("Assigns") or (), redirections, span)
            case "DeclClause":
                return self._declaration(command, redirections, span)
            case "BinaryCmd" if not redirections:
                if command["Op"] in {"|", "|&"} and _is_timed(command["Y"]):
                    # bash runs the program `time` here. `time` is a reserved word only at the
                    # start of a pipeline.
                    reason = "`time` after a pipe is not understood"
                    return NotUnderstood(reason, *span, self._nodes([command["X"], command["Y"]]))
                return Pair(
                    command["Op"], self._statement(command["X"]), self._statement(command["Y"])
                )
        return self._compound(command, redirections, span)

    def _compound(
        self, command: Json, redirections: tuple[Redirection, ...], span: tuple[int, int]
    ) -> Node:
        kind, steps, words = BlockKind.SEQUENCE, [self._nodes(command.get("Stmts"))], list[Word]()
        match command["Type"]:
            case "Block":
                pass
            case "Subshell":
                kind = BlockKind.SUBSHELL
            case "TimeClause" if self._substitutions and not _times_a_program(command):
                # bash runs the program `time` if a substitution begins with this word.
                return self._not_understood(command, span)
            case "TimeClause":
                steps = [self._nodes([command["Stmt"]] if command.get("Stmt") else [])]
            case "IfClause":
                kind, steps = BlockKind.IF, list(self._branches(command))
            case "WhileClause":
                kind, steps = (
                    BlockKind.LOOP,
                    [self._nodes(command["Cond"]), self._nodes(command["Do"])],
                )
            case "ForClause" if command["Loop"]["Type"] == "WordIter" and not command.get("Select"):
                kind, words = (
                    BlockKind.LOOP,
                    [self._word(e) for e in command["Loop"].get("Items") or ()],
                )
                steps = [
                    (self._loop_variable(command["Loop"]["Name"], words),),
                    self._nodes(command["Do"]),
                ]
            case "CaseClause":
                kind, steps = (
                    BlockKind.CASE,
                    [self._nodes(e.get("Stmts")) for e in command.get("Items") or ()],
                )
                patterns = [
                    pattern for each in command.get("Items") or () for pattern in each["Patterns"]
                ]
                words = [self._word(each) for each in (command["Word"], *patterns)]
            case "TestClause":
                self._only_in_bash("`[[ ]]`", span)
                kind, steps = BlockKind.TEST, [tuple(self._test(command["X"]))]
            case "ArithmCmd":
                self._only_in_bash("`(( ))`", span)
                kind, steps = BlockKind.TEST, [self._arithmetic(command, 2)]
            case _:
                return self._not_understood(command, span)
        return Block(kind, tuple(steps), *span, words=tuple(words), redirections=redirections)

    def _not_understood(self, command: Json, span: tuple[int, int]) -> NotUnderstood:
        reasons = {
            "FuncDecl": "a function definition is not understood",
            "CoprocClause": "a coprocess is not understood",
            "ForClause": "`select` and arithmetic `for` are not understood",
            "LetClause": "`let` is not understood",
            "TimeClause": "`time` of a compound command in a substitution is not understood",
        }
        bodies = [command[key] for key in ("Body", "Stmt") if command.get(key)]
        header = [each for key, each in command.items() if key not in {"Body", "Stmt", "Do"}]
        inside = (
            *self._nested_substitutions(header),
            *self._nodes([*bodies, *(command.get("Do") or ())]),
        )
        if command["Type"] == "LetClause":
            start = span[0]
            inside = (*inside, SimpleCommand((Word("let", start, start + 3, "let"),), *span))
        reason = reasons.get(command["Type"], "this construct is not understood")
        return NotUnderstood(reason, *span, inside)

    def _branches(self, clause: Json) -> Iterator[tuple[Node, ...]]:
        """Conditions and bodies in alternation. An `else` is a body after an empty condition."""
        branch: Json | None = clause
        while branch:
            yield self._nodes(branch.get("Cond"))
            yield self._nodes(branch.get("Then"))
            branch = branch.get("Else")

    def _loop_variable(self, name: Json, values: Sequence[Word]) -> Node:
        span = self._span(name)
        # The words themselves are judged with the loop.
        literals = [Word(None, *span, literal=word.literal) for word in values]
        assignments = tuple(Assignment(name["Value"], *span, each) for each in literals or (None,))
        return SimpleCommand((), *span, assignments=assignments)

    # Simple commands

    def _simple(
        self,
        words: tuple[Word, ...],
        assigns: Sequence[Json],
        redirections: tuple[Redirection, ...],
        span: tuple[int, int],
    ) -> Node:
        assignments = []
        for each in assigns:
            if each.get("Index") or each.get("Array") or not each.get("Name"):
                return self._array(assigns, span, words, redirections)
            value = self._word(each["Value"]) if each.get("Value") else None
            if each.get("Append"):
                self._only_in_bash("`+=`", self._span(each))
            assignments.append(Assignment(each["Name"]["Value"], *self._span(each), value))
        return SimpleCommand(words, *span, tuple(assignments), redirections)

    def _array(
        self,
        assigns: Sequence[Json],
        span: tuple[int, int],
        words: tuple[Word, ...],
        redirections: tuple[Redirection, ...],
    ) -> Node:
        command = SimpleCommand(words, *span, redirections=redirections)
        reason = "a subscript or an array assignment is not understood"
        return NotUnderstood(reason, *span, (*self._nested_substitutions(list(assigns)), command))

    def _declaration(
        self, command: Json, redirections: tuple[Redirection, ...], span: tuple[int, int]
    ) -> Node:
        """`export`, `declare` and similar builtins, whose arguments shfmt splits at `=`."""
        variant = command["Variant"]
        words = [Word(variant["Value"], *self._span(variant), variant["Value"])]
        arguments = command.get("Args") or ()
        for each in arguments:
            if each.get("Index") or each.get("Array"):
                return self._array(arguments, span, tuple(words), redirections)
            words.append(self._declaration_word(each))
        return SimpleCommand(tuple(words), *span, redirections=redirections)

    def _declaration_word(self, argument: Json) -> Word:
        value = self._word(argument["Value"]) if argument.get("Value") else None
        if not argument.get("Name"):
            assert value is not None
            return value
        name, span = argument["Name"]["Value"], self._span(argument)
        if argument.get("Naked") or value is None:
            text = name if argument.get("Naked") else f"{name}="
            return Word(text, *span, text)
        before = f"{name}{'+' if argument.get('Append') else ''}="
        text = None if value.text is None else before + value.text
        return Word(text, *span, before + value.prefix, inside=value.inside)

    def _redirections(self, redirections: Sequence[Json]) -> Iterator[Redirection]:
        for each in redirections:
            operator, target = each["Op"], self._word(each["Word"])
            start, end = self._span(each)
            body = None
            if each.get("Hdoc"):
                body = self._here_document(each)
            elif operator == "<<<":
                body = target
            if operator not in _REDIRECTIONS:
                target = self._with_objection(target, "this redirection is not understood")
            closing = self._source(each["Word"]) if operator in {">&", "<&"} else ""
            if closing.startswith("-") and closing != "-":
                # bash parses `>&-p` as `>&-` and the word `p`.
                target = self._with_objection(target, "this redirection is not understood")
            if operator in {"<<", "<<-"} and not _is_plain_delimiter(each["Word"]):
                target = self._with_objection(
                    target, "this here-document delimiter is not understood"
                )
            if each.get("Hdoc") and self._ends_inside(each, target.text):
                reason = "this here-document has a line that ends it inside a substitution"
                target = self._with_objection(target, reason)
            descriptor = each["N"]["Value"] if each.get("N") else ""
            if operator.startswith("&") or descriptor.startswith("{"):
                self._only_in_bash(f"`{descriptor}{operator}`", (start, end))
            yield Redirection(operator, descriptor, target, start, end, body)

    def _ends_inside(self, redirection: Json, delimiter: str | None) -> bool:
        """Whether a line in the here-document is its delimiter. bash ends a here-document at the
        first such line, also inside `$( )`; shfmt does not."""
        is_stripped = redirection["Op"] == "<<-"
        *lines, _ = self._source(redirection["Hdoc"]).split("\n")  # the last line is the delimiter
        return any((line.lstrip("\t") if is_stripped else line) == delimiter for line in lines)

    def _here_document(self, redirection: Json) -> Word:
        body = redirection["Hdoc"]
        if not re.search(r"['\"\\]", self._source(redirection["Word"])):
            return self._word(body, in_quotes=True)
        start, end = self._span(body)
        self._literal.append((start, end))
        return Word(self._text[start:end], start, end)

    # Words

    def _word(self, word: Json, *, in_quotes: bool = False) -> Word:
        characters, inside = Characters(), list[Node]()
        parts = word.get("Parts") or ()
        self._parts(parts, characters, inside, in_quotes)
        is_many = characters.is_split or _has_all_arguments(parts)
        text, span = characters.text, self._span(word)
        if len(parts) > 1 and any(part["Type"] == "ProcSubst" for part in parts):
            inside.append(NotUnderstood("a process substitution is part of a longer word", *span))
        source = self._text[span[0] : span[1]]
        return Word(
            text,
            *span,
            characters.prefix,
            is_many and text is None,
            tuple(inside),
            may_become_option=text is None and source.startswith("{") and "-" in source,
            literal=characters.unexpanded,
        )

    def _parts(
        self, parts: Sequence[Json], characters: Characters, inside: list[Node], in_quotes: bool
    ) -> None:
        for part in parts:
            match part["Type"]:
                case "Lit":
                    add = characters.double_quoted if in_quotes else characters.literal
                    add(part.get("Value", ""))
                case "SglQuoted" if part.get("Dollar"):
                    self._only_in_bash("`$'…'`", self._span(part))
                    characters.ansi_c(part.get("Value", ""))
                case "SglQuoted":
                    self._literal.append(self._span(part))
                    characters.quoted(part.get("Value", ""))
                case "DblQuoted" if not part.get("Dollar"):
                    self._parts(part.get("Parts") or (), characters, inside, in_quotes=True)
                case _:
                    # An empty process substitution, such as `<()`, becomes no word.
                    is_file = part["Type"] == "ProcSubst" and bool(part.get("Stmts"))
                    characters.expansion(quoted=in_quotes or is_file)
                    inside.extend(self._expansion(part))

    def _expansion(self, part: Json) -> Iterator[Node]:
        match part["Type"]:
            case "ParamExp":
                yield from self._parameter(part)
            case "CmdSubst" | "ProcSubst":
                yield from self._substitution(part)
            case "ArithmExp":
                yield from self._arithmetic(part, 2 if part.get("Bracket") else 3)
            case "DblQuoted":
                yield self._not_understood_part('$"…" is not understood', part)
            case "ExtGlob":
                yield self._not_understood_part("an extended glob is not understood", part)
            case _:
                yield self._not_understood_part("this expansion is not understood", part)

    def _parameter(self, part: Json) -> Iterator[Node]:
        span = self._span(part)
        expansion = part.get("Exp") or {}
        if part.get("Excl"):
            yield self._not_understood_part("${!…} is not understood", part)
        elif part.get("Index"):
            yield self._not_understood_part("a subscript is not understood", part)
        elif expansion.get("Op") == "@":
            yield self._not_understood_part("${…@…} is not understood", part)
        elif set(_nonempty_keys(part)) - _PARAMETER:
            yield self._not_understood_part("this form of ${…} is not understood", part)
        elif not part.get("Short"):
            inside = self._source(part)[2:-1]
            reason = strict_filter.parameter_objection(inside, is_slice=bool(part.get("Slice")))
            if reason:
                yield self._not_understood_part(reason, part)
        if expansion.get("Op") in {"=", ":="}:
            assignment = Assignment(part["Param"]["Value"], *span)
            yield SimpleCommand((), *span, assignments=(assignment,))

    def _not_understood_part(self, reason: str, part: Json) -> NotUnderstood:
        return NotUnderstood(reason, *self._span(part), tuple(self._nested_substitutions(part)))

    def _nested_substitutions(self, node: Any) -> Iterator[Node]:
        """All substitutions, at any depth, in a construct that is not understood."""
        if isinstance(node, list):
            for each in node:
                yield from self._nested_substitutions(each)
        elif isinstance(node, dict):
            if node.get("Type") in {"CmdSubst", "ProcSubst"}:
                yield from self._substitution(node)
            else:
                for each in node.values():
                    yield from self._nested_substitutions(each)

    def _substitution(self, part: Json) -> Iterator[Node]:
        span = self._span(part)
        self._substitutions += 1
        nodes = self._nodes(part.get("Stmts"))
        self._substitutions -= 1
        yield Block(BlockKind.SUBSHELL, (nodes,), *span)
        if part.get("TempFile") or part.get("ReplyVar"):
            yield NotUnderstood("${ …; } is not understood", *span)
        if part.get("Backquotes"):
            nested = _count_backticks(part.get("Stmts"))
            inside = self._source(part).removeprefix("\\")[1:-1].removesuffix("\\")
            reason = strict_filter.backtick_objection(inside, nested=nested)
            if reason:
                yield NotUnderstood(reason, *span)

    def _arithmetic(self, node: Json, brackets: int) -> tuple[Node, ...]:
        """`brackets` is the length of `$((`, `$[` or `((`."""
        start, end = self._span(node)
        closing = 2 if self._source(node).endswith("))") else 1
        inside = self._text[start + brackets : end - closing]
        reason = strict_filter.arithmetic_objection(inside)
        if reason:
            return (
                NotUnderstood(reason, start, end, tuple(self._nested_substitutions(node.get("X")))),
            )
        names = strict_filter.arithmetic_assignments(inside)
        return tuple(
            SimpleCommand((), start, end, assignments=(Assignment(name, start, end),))
            for name in names
        )

    def _with_objection(self, word: Word, reason: str) -> Word:
        objection = NotUnderstood(reason, word.start, word.end)
        return Word(word.text, word.start, word.end, inside=(*word.inside, objection))

    # [[ … ]]

    def _test(self, test: Json) -> Iterator[Node]:
        """The commands that run in a test, and the parts that are not understood."""
        if test["Type"] == "Word":
            yield from self._operand(test)
            return
        if test["Type"] not in {"BinaryTest", "UnaryTest", "ParenTest"}:
            yield NotUnderstood("this test is not understood", *self._span(test))
            return
        if test.get("Op") == "=~":
            yield NotUnderstood("`=~` is not understood", *self._span(test))
        for key in ("X", "Y"):
            if test.get(key):
                yield from self._test(test[key])
                yield from self._evaluated(test.get("Op"), test[key])

    def _operand(self, word: Json) -> Iterator[Node]:
        operand = self._word(word)
        if any(isinstance(each, Block) for each in operand.inside):
            reason = "`[[ ]]` that substitutes is not understood"
            yield NotUnderstood(reason, operand.start, operand.end, operand.inside)
        else:
            yield from operand.inside

    def _evaluated(self, operator: str | None, operand: Json) -> Iterator[Node]:
        """A node for an operand that bash evaluates as arithmetic or as a subscript, because this
        can run commands."""
        is_plain = _EVALUATED_OPERANDS.get(operator or "")
        if is_plain is None or operand["Type"] != "Word" or is_plain(self._source(operand)):
            return
        reason = f"bash evaluates the operand of `{operator}`, and this one is not a plain name"
        yield NotUnderstood(reason, *self._span(operand))


def _nonempty_keys(node: Json) -> Iterator[str]:
    return (key for key, value in node.items() if value not in (None, False, "", []))


def _count_backticks(tree: Any) -> int:
    """The number of substitutions with backticks, at any depth."""
    if isinstance(tree, list):
        return sum(_count_backticks(each) for each in tree)
    if not isinstance(tree, dict):
        return 0
    own = tree.get("Type") == "CmdSubst" and bool(tree.get("Backquotes"))
    return own + sum(_count_backticks(each) for each in tree.values())


def _times_a_program(clause: Json) -> bool:
    command = (clause.get("Stmt") or {}).get("Cmd")
    return command is None or command["Type"] == "CallExpr"


def _is_timed(statement: Json) -> bool:
    return bool(statement.get("Cmd")) and statement["Cmd"]["Type"] == "TimeClause"


def _has_all_arguments(parts: Sequence[Json]) -> bool:
    """Whether the word contains `"$@"`, which expands to one word per argument."""
    return any(
        (part["Type"] == "ParamExp" and part["Param"]["Value"] == "@")
        or (part["Type"] == "DblQuoted" and _has_all_arguments(part.get("Parts") or ()))
        for part in parts
    )


def _is_plain_delimiter(word: Json) -> bool:
    for part in word.get("Parts") or ():
        if part["Type"] == "DblQuoted" and not part.get("Dollar"):
            if any(inner["Type"] != "Lit" for inner in part.get("Parts") or ()):
                return False
        elif part["Type"] not in {"Lit", "SglQuoted"} or part.get("Dollar"):
            return False
    return True
