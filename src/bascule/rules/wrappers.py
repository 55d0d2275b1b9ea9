"""Wrappers: commands that run other commands. Finds the command that a wrapper runs. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .syntax import Word


@dataclass(frozen=True)
class Wrapper:
    """The options of one wrapper. Options that are not listed need approval.

    `flags` and `valued` are harmless. Options in `asking` take a value and need approval; they are
    listed so that deny rules find the command after them. A short option is a letter.
    """

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    asking: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    """Options with an optional value, which is attached to the option."""
    operands: int = 0
    """The number of words between the options and the command."""
    assigns: bool = False
    always_asks: bool = False
    runs_builtins: bool = False
    """Whether the command runs in this shell, so that `cd` has an effect."""


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


WRAPPERS: Mapping[str, Wrapper] = {
    "env": Wrapper(
        flags=_set("i 0 v --ignore-environment --null --debug"),
        valued=_set("u --unset"),
        asking=_set("S C --split-string --chdir"),
        assigns=True,
    ),
    "timeout": Wrapper(
        flags=_set("v f p --foreground --preserve-status --verbose"),
        valued=_set("s k --signal --kill-after"),
        operands=1,
    ),
    "nice": Wrapper(valued=_set("n --adjustment")),
    "nohup": Wrapper(),
    "time": Wrapper(
        flags=_set("p v q --portability --verbose --quiet"),
        valued=_set("f --format"),
        asking=_set("o --output"),
    ),
    "command": Wrapper(flags=_set("p v V"), runs_builtins=True),
    "builtin": Wrapper(runs_builtins=True),
    "stdbuf": Wrapper(valued=_set("i o e --input --output --error")),
    "setsid": Wrapper(flags=_set("w f --wait --fork")),
    "ionice": Wrapper(flags=_set("t --ignore"), valued=_set("c n --class --classdata")),
    "xargs": Wrapper(
        flags=_set("0 r t x --null --no-run-if-empty --verbose --exit"),
        valued=_set("n L P s d E I a --max-args --max-procs --max-chars --delimiter --arg-file"),
        asking=_set("--process-slot-var"),
        optional=_set("i l e --replace --max-lines --eof"),
    ),
    "sudo": Wrapper(
        valued=_set(
            "u g h p C T R D r t U --user --group --host --prompt --close-from --command-timeout "
            "--chroot --chdir --role --type --other-user"
        ),
        assigns=True,
        always_asks=True,
    ),
    "doas": Wrapper(valued=_set("u C"), always_asks=True),
    "exec": Wrapper(flags=_set("c l"), valued=_set("a"), always_asks=True),
}

FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})

_ASSIGNMENT = re.compile("([^=]*)=")
_NICENESS = re.compile(r"-[-+]?\d+", re.ASCII)


@dataclass(frozen=True)
class Unwrapped:
    """The command that a wrapper runs."""

    inner: Sequence[Word]
    """The words of the command; empty if the wrapper runs no command."""
    objections: Sequence[str]
    assigned: Sequence[tuple[str, Word]]
    runs_nothing: bool = False
    """Whether the wrapper only looks up names, as `command -v` does."""


def unwrap(name: str, words: Sequence[Word]) -> Unwrapped:
    """The command that the wrapper `name` runs; `words` begins with the wrapper."""
    return _WrapperReader(WRAPPERS[name], name, words).read()


class _WrapperReader:
    def __init__(self, wrapper: Wrapper, name: str, words: Sequence[Word]) -> None:
        self._wrapper = wrapper
        self._name = name
        self._words = words
        self._index = 1
        self._options: list[tuple[str, Word | None]] = []
        self._objections: list[str] = []
        self._is_unclear = False
        self._assigned: list[tuple[str, Word]] = []

    def read(self) -> Unwrapped:
        self._read_options()
        if self._name == "env":
            self._split_strings()
        for _ in range(self._wrapper.operands):
            self._read_operand()
        if self._wrapper.assigns:
            self._read_assignments()
        if self._wrapper.always_asks:
            self._objections.append(f"`{self._name}` always asks")
        inner = self._words[self._index :]
        if self._name == "xargs":
            inner = self._with_input(inner)
        return Unwrapped(inner, self._objections, self._assigned, self._only_looks_up)

    @property
    def _only_looks_up(self) -> bool:
        found = any(name in {"v", "V"} for name, _ in self._options)
        return self._name == "command" and found and not self._is_unclear

    def _read_options(self) -> None:
        while self._index < len(self._words):
            word = self._words[self._index]
            if word.text == "--":
                self._index += 1
                return
            if word.text is None:
                # After `command -v` only names follow, and nothing runs.
                is_operand = self._wrapper.operands and not word.prefix.startswith("-")
                if self._only_looks_up or is_operand or not self._skip_unknown(word):
                    return
                self._is_unclear = True
                continue
            if self._name == "env" and word.text == "-":
                self._index += 1
                continue
            if not word.text.startswith("-") or word.text == "-":
                return
            self._index += 1
            if self._name == "nice" and _NICENESS.fullmatch(word.text):
                continue
            if word.text.startswith("--"):
                self._long(word.text)
            else:
                self._short(word.text[1:])

    def _skip_unknown(self, word: Word) -> bool:
        """Skip a word that begins like an option. Returns False, and skips nothing, if the word may
        be the command."""
        is_option = word.prefix.startswith("-")
        if is_option or not word.prefix:
            self._objections.append(f"a word of `{self._name}` is not known and may be an option")
        self._index += is_option
        return is_option

    def _long(self, text: str) -> None:
        given, equals, value = text.partition("=")
        wrapper = self._wrapper
        known = wrapper.flags | wrapper.valued | wrapper.asking | wrapper.optional
        matches = {given} & known or {each for each in known if _is_abbreviation(given, each)}
        name = next(iter(matches)) if len(matches) == 1 else ""
        needs_value = name in wrapper.valued | wrapper.asking
        if not name or name in wrapper.asking:
            self._objections.append(f"`{self._name} {given}` is not known to be harmless")
        attached = Word(value, 0, 0, value) if equals else None
        self._options.append((name, self._value() if needs_value and not equals else attached))

    def _short(self, letters: str) -> None:
        for position, letter in enumerate(letters):
            rest = letters[position + 1 :]
            attached = Word(rest, 0, 0, rest) if rest else None
            wrapper = self._wrapper
            if (
                letter in wrapper.asking
                or letter not in wrapper.flags | wrapper.valued | wrapper.optional
            ):
                self._objections.append(f"`{self._name} -{letter}` is not known to be harmless")
            if letter in wrapper.valued | wrapper.asking:
                self._options.append((letter, attached or self._value()))
                return
            if letter in wrapper.optional:
                self._options.append((letter, attached))
                return
            self._options.append((letter, None))

    def _value(self) -> Word | None:
        if self._index >= len(self._words):
            self._objections.append(f"an option of `{self._name}` has no value")
            return None
        word = self._words[self._index]
        self._index += 1
        if word.text is None:
            self._objections.append(f"the value of an option of `{self._name}` is not known")
        return word

    def _read_operand(self) -> None:
        if self._index < len(self._words):
            if self._words[self._index].text is None:
                self._objections.append(
                    f"a word of `{self._name}` is not known and may be an option"
                )
            self._index += 1

    def _read_assignments(self) -> None:
        while self._index < len(self._words):
            word = self._words[self._index]
            assignment = _ASSIGNMENT.match(word.prefix if word.text is None else word.text)
            if assignment is None:
                return
            if word.is_many:
                self._objections.append(f"an assignment of `{self._name}` may become several words")
            self._assigned.append((assignment[1], word))
            self._index += 1

    def _split_strings(self) -> None:
        """Insert the words of `env -S` where env inserts them, so that deny rules see them."""
        for name, value in self._options:
            if name in {"S", "--split-string"} and value is not None and value.text is not None:
                start, end = self._words[0].start, self._words[-1].end
                split = [Word(each, start, end, each) for each in value.text.split()]
                self._words = [*self._words[: self._index], *split, *self._words[self._index :]]

    def _with_input(self, inner: Sequence[Word]) -> Sequence[Word]:
        """The command of xargs, with the unknown words that xargs reads from stdin."""
        end = self._words[-1].end
        command = list(inner) or [Word("echo", end, end, "echo")]
        replaced = [value for name, value in self._options if name in {"I", "i", "--replace"}]
        if not replaced:
            return [*command, Word(None, end, end, is_many=True)]
        pattern = replaced[-1].text if replaced[-1] is not None else "{}"
        return [
            word.with_unknown_text() if not pattern or pattern in (word.text or "") else word
            for word in command
        ]


def _is_abbreviation(text: str, option: str) -> bool:
    """Whether `text` is the beginning of the long option `option`. Programs accept this too."""
    return len(text) > 2 and option.startswith(text)


@dataclass(frozen=True)
class FindAction:
    """The command of one `-exec` of find. It may be empty."""

    inner: Sequence[Word]
    is_finished: bool = True


def find_actions(words: Sequence[Word]) -> Sequence[FindAction]:
    """The commands that `find` runs. `{}` becomes an unknown word."""
    found, index = [], 1
    while index < len(words):
        if words[index].text not in FIND_ACTIONS:
            index += 1
            continue
        end = _end_of_action(words, index + 1)
        is_many = end is not None and words[end].text == "+"
        inner = [_with_found_path(word, is_many) for word in words[index + 1 : end]]
        found.append(FindAction(inner, is_finished=end is not None))
        index = len(words) if end is None else end + 1
    return found


def _with_found_path(word: Word, is_many: bool) -> Word:
    if word.text is None or "{}" not in word.text:
        return word
    return word.with_unknown_text(is_many=is_many and word.text == "{}")


def _end_of_action(words: Sequence[Word], start: int) -> int | None:
    for index in range(start, len(words)):
        if words[index].text == ";" or (words[index].text == "+" and words[index - 1].text == "{}"):
            return index
    return None
