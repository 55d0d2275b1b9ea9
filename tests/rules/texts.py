"""Generates bash texts from a grammar and damages some of them, for the fuzzer."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_LETTERS = "bcdfghjklmnpqrstvwxz"
_DAMAGE = [
    *(
        "\\\n",
        " \\\n",
        "\\",
        "'",
        '"',
        "`",
        "$",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "$(",
        "${",
        "((",
        "))",
    ),
    *("<(", "<<E\n", "\nE\n", ";", "&", "|", "\n", "#", " #", "!", "~", "*", ",", "$'", '$"', "\t"),
    *("\r", " ", "=", "\\\\", ">&", "<<<", "@(", "esac", "done", "}\n", "time ", "coproc "),
]


@dataclass
class TextMaker:
    """Makes texts whose commands have names that no program and no builtin has."""

    random: random.Random
    names: list[str] = field(default_factory=list)
    _pending: list[str] = field(default_factory=list)

    def text(self) -> str:
        """A new text, damaged every other time. `names` has the names of its commands."""
        self.names.clear()
        self._pending.clear()
        text = self._list(self.random.randint(1, 3))
        for _ in range(self.random.choice((0, 0, 0, 1, 1, 2))):
            text = self._damaged(text)
        return text

    def _damaged(self, text: str) -> str:
        position = self.random.randint(0, len(text))
        if self.random.random() < 0.3:
            marks = [i for i, character in enumerate(text) if not character.isalnum()]
            if marks:
                position = self.random.choice(marks)
                return text[:position] + text[position + 1 :]
        return text[:position] + self.random.choice(_DAMAGE) + text[position:]

    def _pick(self, *makers: Callable[[int], str], depth: int) -> str:
        return self.random.choice(makers)(depth)

    # Lists and commands

    def _list(self, depth: int) -> str:
        parts = [self._pipeline(depth)]
        for _ in range(self.random.choice((0, 0, 1, 1, 2))):
            operators = [" && ", " || ", "\n", "; ", " & "]
            parts.append(self._newline() if self._pending and self._coin() else "")
            parts[-1] = parts[-1] or self.random.choice(operators)
            if parts[-1] == "\n":
                parts[-1] = self._newline()
            parts.append(self._pipeline(depth))
        if self._pending:
            parts.append(self._newline())
        return "".join(parts)

    def _newline(self) -> str:
        bodies, self._pending = self._pending, []
        return "\n" + "".join(bodies)

    def _pipeline(self, depth: int) -> str:
        start = self.random.choice(("", "", "", "", "! ", "time ", "time -p "))
        joined = self._command(depth)
        if self._coin(0.2):
            joined += self.random.choice((" | ", " |& ", "|")) + self._command(depth)
        return start + joined

    def _command(self, depth: int) -> str:
        if depth <= 0 or self._coin(0.55):
            return self._simple(depth)
        inner = depth - 1
        return self._pick(
            lambda d: "{ " + self._closed(d) + "}",
            lambda d: "(" + self._list(d) + ")",
            lambda d: f"if {self._closed(d)}then {self._closed(d)}fi",
            lambda d: f"if {self._closed(d)}then {self._closed(d)}else {self._closed(d)}fi",
            lambda d: f"while {self._closed(d)}do {self._closed(d)}done",
            lambda d: f"until {self._closed(d)}do {self._closed(d)}done",
            lambda d: f"for v in {self._word(d)} {self._word(d)}; do {self._closed(d)}done",
            lambda d: f"case {self._word(d)} in a|{self._word(0)}) {self._list(d)} ;; esac",
            lambda d: f"case a in b) {self._list(d)} ;; *) {self._list(d)} ;; esac",
            lambda d: f"case a in a) {self._list(d)} ;& b) {self._list(d)}\nesac",
            lambda d: f"[[ -n {self._word(d)} ]]",
            lambda d: f"(( v = {self.random.randint(0, 3)} + w ))",
            lambda d: f"eval '{self._name()} a'",
            lambda d: f"eval {self._name()} {self._word(d)}",
            lambda d: f"command {self._simple(d)}",
            lambda d: f"{self._name()}() {{ {self._closed(d)}}}",
            lambda d: f"[ -n {self._word(d)} ] && {self._command(d)}",
            lambda d: f"v={self._word(d)}",
            lambda d: f"{{ {self._closed(d)}}} > {self._word(0)}",
            depth=inner,
        )

    def _closed(self, depth: int) -> str:
        """A list that a reserved word can follow."""
        made = self._list(depth)
        return made if made.endswith("\n") else made + self.random.choice(("; ", "\n", ";"))

    def _simple(self, depth: int) -> str:
        before = self.random.choice(
            ("", "", "", "", f"LANG={self._word(0)} ", "> f ", "\\\n" if self._coin(0.1) else "")
        )
        words = [self._word(depth) for _ in range(self.random.choice((0, 1, 1, 2)))]
        text = " ".join((before + self._quoted_name(), *words))
        if self._coin(0.25):
            text += " " + self._redirection(depth)
        return text + (" # it's a `comment" + self._newline() if self._coin(0.03) else "")

    def _redirection(self, depth: int) -> str:
        if self._coin(0.5):
            return self._here_document(depth)
        return self.random.choice(
            (
                "> f",
                ">> f",
                "2>&1",
                "< f",
                "2> /dev/null",
                f"<<< {self._word(depth)}",
                f"< <({self._list(0)})",
                "&> f",
            )
        )

    def _here_document(self, depth: int) -> str:
        mark = self.random.choice(("E", "'E'", '"E"', "\\E", "E_F", "'E F'"))
        end = mark.strip("'\"").lstrip("\\")
        operator, tab = self.random.choice((("<<", ""), ("<<-", "\t")))
        pending, self._pending = self._pending, []
        lines = [
            self.random.choice(
                (
                    "text",
                    "it's",
                    '"',
                    "\\$v",
                    f"$({self._list(depth - 1)})",
                    f"`{self._list(0)}`",
                    "${v:-a}",
                    "$v \\",
                    "#",
                    ")",
                )
            )
            for _ in range(self.random.randint(0, 2))
        ]
        self._pending = [*pending, "".join(f"{tab}{line}\n" for line in lines) + f"{tab}{end}\n"]
        return operator + mark

    # Words

    def _name(self) -> str:
        name = "".join(self.random.choices(_LETTERS, k=5))
        self.names.append(name)
        return name

    def _quoted_name(self) -> str:
        name = self._name()
        return self.random.choice(
            (
                name,
                name,
                name,
                name,
                f"'{name}'",
                f'"{name}"',
                f"\\{name}",
                f"{name[:2]}'{name[2:]}'",
                f"$'{name}'",
                f'{name[:2]}"{name[2:]}"',
                f"$'\\x{ord(name[0]):x}{name[1:]}'" if name[1] not in "bcdf" else name,
            )
        )

    def _word(self, depth: int) -> str:
        made = self._piece(depth)
        return made + self._piece(depth) if self._coin(0.2) else made

    def _piece(self, depth: int) -> str:
        plain: Sequence[str] = (
            *(
                "a",
                "b",
                "-x",
                "'q r'",
                '"q r"',
                "$'a\\tb'",
                "\\a",
                "$v",
                '"$v"',
                "${v}",
                "${v:-a}",
                "${#v}",
                "${v#a}",
            ),
            *(
                "$((1 + 2))",
                "{a,b}",
                "a*",
                "~",
                "''",
                '"\\""',
                "a#b",
                "\\'",
                '\\"',
                "'\\'",
                "$",
                '"$"',
                "$?",
                "{",
                "}",
                "!",
            ),
            *(
                "'`'",
                '"\\`"',
                "'$('",
                '"it\'s"',
                "\\$v",
                "\\`",
                "--",
                "=",
                "a=b",
                "[a]",
                "@",
                "%",
                "in",
                "if",
                "$[1]",
            ),
        )
        if depth <= 0 or self._coin(0.5):
            return self.random.choice(plain)
        inner = depth - 1
        return self._pick(
            lambda d: f"$({self._list(d)})",
            lambda d: f"$( {self._list(d)} )",
            lambda d: f'"$({self._list(d)})"',
            lambda d: f'"a $({self._list(d)}) b"',
            lambda d: f"`{self._list(0)}`",
            lambda d: f"` {self._list(0)} `",
            lambda d: f'"`{self._list(0)}`"',
            lambda d: f"`{self._name()} \\`{self._name()}\\``",
            lambda d: f"<({self._list(d)})",
            lambda d: f"${{v:-$({self._list(d)})}}",
            lambda d: f'"${{v:-`{self._list(0)}`}}"',
            lambda d: f"${{v#$({self._list(d)})}}",
            lambda d: f"$(( $({self._list(d)}) ))",
            lambda d: f"${{v/a/{self._name()}}}",
            lambda d: f"${{v:={self._name()}}}",
            lambda d: f'$"{self._name()} $({self._list(d)})"',
            depth=inner,
        )

    def _coin(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance
