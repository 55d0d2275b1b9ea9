"""JSON lines of `bascule rules check --batch`: one question per line, one answer per line. No I/O.

Decisions depend only on the text of a batch, so that every machine gives the same answers. Links
are not resolved, and missing paths have fixed default values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bascule.core.errors import InvalidSetting

from .command_context import CommandContext
from .rule import Rules
from .verdict import CommandVerdict, Decision, Part

_LIST_FIELDS = ("allow", "ask", "deny")
_PATH_FIELDS = ("workspace", "cwd", "home")
_MAX_SHOWN_CHARACTERS = 200
_DEFAULTS = CommandContext("/home/ann/project", "/home/ann/project", "/home/ann")


@dataclass(frozen=True)
class Question:
    """One line of a batch."""

    command: str
    rules: Rules
    context: CommandContext

    def encode(self) -> str:
        """The line for this question, with every field."""
        lists = {
            name: [list(rule.words) for rule in getattr(self.rules, name)] for name in _LIST_FIELDS
        }
        paths = {name: getattr(self.context, name) for name in _PATH_FIELDS}
        return json.dumps({"command": self.command, **lists, **paths})


def decode_question(line: bytes, number: int) -> Question:
    """Decode one line. Raises `InvalidSetting` with the line number."""
    try:
        fields = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise InvalidSetting(f"line {number}: is not UTF-8 text") from error
    except json.JSONDecodeError as error:
        raise InvalidSetting(f"line {number}: is not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        # A number with thousands of digits, or lists that are nested too deeply.
        raise InvalidSetting(f"line {number}: is not usable JSON: {error}") from error
    if not isinstance(fields, dict):
        raise InvalidSetting(f"line {number}: is not a JSON object")
    command = fields.get("command")
    if not isinstance(command, str):
        raise InvalidSetting(
            f"line {number}: `command` is {_shorten(command)}, but must be a string"
        )
    lists = [_rules(fields, name, number) for name in _LIST_FIELDS]
    return Question(command, Rules.of(*lists), _context(fields, number))


def encode_answer(decision: Decision) -> str:
    """One line of the result, in ASCII: some readers end a line at U+2028 or U+0085 as well."""
    parts = [part.as_json() for part in decision.parts]
    return json.dumps({"verdict": decision.verdict.value, "parts": parts})


def refusal(error: InvalidSetting) -> Decision:
    """The decision on a line that cannot be decoded. It needs approval, like every text that is
    not understood."""
    return Decision([Part("", 0, 0, CommandVerdict.ASK, str(error))])


def _rules(fields: Mapping[str, Any], name: str, number: int) -> Sequence[Sequence[str]]:
    value = fields.get(name)
    if value is None:
        return ()
    is_list = isinstance(value, list) and all(_is_rule(each) for each in value)
    if not is_list:
        raise InvalidSetting(
            f"line {number}: `{name}` is {_shorten(value)}, but must be a list of lists of words"
        )
    rules: Sequence[Sequence[str]] = value
    return rules


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…"


def _is_rule(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)


def _context(fields: Mapping[str, Any], number: int) -> CommandContext:
    paths = {name: fields[name] for name in _PATH_FIELDS if fields.get(name) is not None}
    for name, value in paths.items():
        if not isinstance(value, str) or not value.startswith("/"):
            raise InvalidSetting(
                f"line {number}: `{name}` is {_shorten(value)}, but must be an absolute path"
            )
    if "workspace" in paths:
        paths.setdefault("cwd", paths["workspace"])
    return replace(_DEFAULTS, **paths)
