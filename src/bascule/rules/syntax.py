"""The syntax tree from which verdicts are computed: commands, words, and commands inside words.

The tree has fewer kinds of nodes than bash's grammar. Constructs that rules do not cover are
`NotUnderstood`. Positions count characters of the command text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias


@dataclass(frozen=True)
class Word:
    """One word after quotes are removed.

    `text` is None if bash would expand the word. `prefix` is the text before the first expansion.
    `is_many`: the word may expand to no word or to several words. `inside` has the commands that an
    expansion runs. `may_become_option`: braces may put a dash at the start, as in `{-o,x}`.
    `literal` is all text that is not expanded.
    """

    text: str | None
    start: int
    end: int
    prefix: str = ""
    is_many: bool = False
    inside: tuple[Node, ...] = ()
    may_become_option: bool = False
    literal: str = ""

    def with_unknown_text(self, *, is_many: bool = False) -> Word:
        """This word with unknown text, because a program such as xargs or find replaces `{}` in
        it."""
        return replace(self, text=None, prefix="", is_many=is_many)


@dataclass(frozen=True)
class Assignment:
    """`NAME=value`, also as a part of `${NAME:=value}`, arithmetic and `for NAME in`."""

    name: str
    start: int
    end: int
    value: Word | None = None


@dataclass(frozen=True)
class Redirection:
    """One redirection. `body` is the text of a here-document or here-string."""

    operator: str
    descriptor: str
    target: Word
    start: int
    end: int
    body: Word | None = None


@dataclass(frozen=True)
class SimpleCommand:
    """A command with words, assignments and redirections. Any of the three may be missing."""

    words: tuple[Word, ...]
    start: int
    end: int
    assignments: tuple[Assignment, ...] = ()
    redirections: tuple[Redirection, ...] = ()


@dataclass(frozen=True)
class Pair:
    """Two commands joined by `&&`, `||`, `|` or `|&`."""

    operator: str
    left: Node
    right: Node


class BlockKind(Enum):
    """How the steps of a block run."""

    SEQUENCE = "sequence"
    SUBSHELL = "subshell"
    """Includes background commands and substitutions: a `cd` inside has no effect outside."""
    NEGATION = "negation"
    IF = "if"
    LOOP = "loop"
    CASE = "case"
    TEST = "test"


@dataclass(frozen=True)
class Block:
    """A compound command. `kind` determines the order and the shell in which its steps run."""

    kind: BlockKind
    steps: tuple[tuple[Node, ...], ...]
    """Lists of commands. `if`: condition, body, condition, body and so on, where the condition of
    `else` is empty. Loop: condition, body. Case: one list for each branch. Other kinds: one
    list."""
    start: int
    end: int
    words: tuple[Word, ...] = ()
    redirections: tuple[Redirection, ...] = ()


@dataclass(frozen=True)
class NotUnderstood:
    """A construct that always needs approval. `inside` has the commands in it, so that deny
    rules still apply to them."""

    reason: str
    start: int
    end: int
    inside: tuple[Node, ...] = ()


Node: TypeAlias = SimpleCommand | Pair | Block | NotUnderstood


@dataclass(frozen=True)
class ParsedText:
    """A parsed command text. `bash_only` are the constructs that `sh` interprets differently."""

    nodes: Sequence[Node]
    bash_only: Sequence[NotUnderstood] = ()
