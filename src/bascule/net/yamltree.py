"""Parses YAML into a tree in which every value has its position in the file.

YAML 1.2 with the values of JSON: `yes` and `2024-01-01` are strings, `1e3` is a number.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, ComposerError, MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as YamlNode

from .diagnostics import Findings
from .model import Span
from .sizes import MAX_ALIASED_VALUES, MAX_DEPTH, MAX_DIGITS, MAX_YAML_CHARACTERS, MAX_YAML_VALUES

_MERGE = "tag:yaml.org,2002:merge"
_DEEP = f"Lists and mappings are nested more than {MAX_DEPTH} levels deep"
_SURROGATE = "Half of a surrogate pair is not a character; write the character itself"
_STRING_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("str", "timestamp", "value", "merge"))
"""Tags whose values are read as strings."""
_KNOWN_TAGS = (
    *_STRING_TAGS,
    *(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "seq", "map")),
)


@dataclass(frozen=True, slots=True)
class Scalar:
    value: str | int | float | bool | None
    span: Span
    style: str = ""
    """How the value is written: `|`, `>`, `'`, `"`, or empty for plain."""
    indent: int = 0
    """The column, from 0, at which the lines of a block (`|`) begin."""


@dataclass(frozen=True, slots=True)
class Items:
    items: Sequence[Node]
    span: Span


@dataclass(frozen=True, slots=True)
class Fields:
    fields: Mapping[str, Node]
    keys: Mapping[str, Span]
    span: Span

    def get(self, *names: str) -> Node | None:
        """The value of the first of `names` that exists."""
        return next((self.fields[name] for name in names if name in self.fields), None)


Node: TypeAlias = Scalar | Items | Fields


def read(text: str, file: str, findings: Findings) -> Node | None:
    """Parse the single document in `text`. None if this fails; then `findings` has the cause."""
    start = Span(file, 1, 1, 1, 1)
    if len(text) > MAX_YAML_CHARACTERS:
        message = f"The file has {len(text):,} characters; a net in YAML has at most"
        findings.error("yaml.size", f"{message} {MAX_YAML_CHARACTERS:,}. Use PNML (.pnml)", start)
        return None
    try:
        documents = list(_yaml_nodes(text))
    except MaxDepthExceededError as error:
        findings.error("yaml.depth", _DEEP, _error_span(error, file) or start)
        return None
    except _TooManyValues as error:
        message = f"More than {MAX_YAML_VALUES:,} keys and values. Use PNML (.pnml) for such a net"
        findings.error("yaml.size", message, _error_span(error, file) or start)
        return None
    except MarkedYAMLError as error:
        findings.error("yaml.syntax", _error_message(error), _error_span(error, file) or start)
        return None
    except (YAMLError, ValueError, OverflowError) as error:
        problem = f"{error}".strip().partition("\n")[0]
        findings.error("yaml.syntax", f"Not valid YAML: {problem}", start)
        return None
    if len(documents) != 1 or documents[0] is None:
        problem = "is empty" if not any(documents) else f"holds {len(documents)} YAML documents"
        findings.error("yaml.documents", f"The file {problem}; a net is one document", start)
        return None
    try:
        return _YamlReader(text, file, findings).node(documents[0])
    except _TooManyAliased as error:
        message = (
            f"Aliases (*name) repeat more than {MAX_ALIASED_VALUES:,} values; write fewer of them"
        )
        findings.error("yaml.aliases", message, error.span)
        return None
    except _TooDeep as error:
        findings.error("yaml.depth", _DEEP, error.span)
        return None


def plain(node: Node) -> Any:
    """The value without positions."""
    match node:
        case Scalar(value):
            return value
        case Items(items):
            return [plain(item) for item in items]
        case Fields(fields):
            return {name: plain(value) for name, value in fields.items()}


class _TooManyValues(ComposerError):
    """The text has more than `MAX_YAML_VALUES`."""


class _Unreadable(Exception):
    """Raised to stop reading a tree."""

    def __init__(self, span: Span) -> None:
        super().__init__(str(span))
        self.span = span


class _TooManyAliased(_Unreadable):
    pass


class _TooDeep(_Unreadable):
    pass


class _Yaml(YAML):
    def official_plug_ins(self) -> list[str]:
        return []  # otherwise the library searches the disk for plug-ins each time


class _CountingComposer(Composer):
    """Stops composing when the text has too many values."""

    _count = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._count += 1
        if self._count > MAX_YAML_VALUES:
            mark = self.parser.peek_event().start_mark
            raise _TooManyValues(None, None, "too many values", mark)
        return super().compose_node(parent, index)


def _yaml_nodes(text: str) -> Iterator[YamlNode | None]:
    # "safe" differs from "rt" in that it drops comments, which are not needed here.
    yaml = _Yaml(typ="safe", pure=True)
    yaml.Composer = _CountingComposer
    yaml.max_depth = MAX_DEPTH
    with warnings.catch_warnings():
        # YAML allows to define an anchor twice: the last definition counts.
        warnings.simplefilter("ignore", ReusedAnchorWarning)
        yield from yaml.compose_all(text)


class _YamlReader:
    def __init__(self, text: str, file: str, findings: Findings) -> None:
        self._seen: set[int] = set()
        self._aliased = 0
        self._lines = text.splitlines()
        self._file = file
        self._findings = findings
        self._open: set[int] = set()

    def node(self, node: YamlNode) -> Node:
        span = self._span(node)
        if id(node) in self._open:
            self._findings.error("yaml.circle", "An alias that contains itself", span)
            return Scalar(None, span)
        if len(self._open) > MAX_DEPTH:
            # ruamel limits the depth of the text. Replacing aliases by their values can make the
            # tree deeper.
            raise _TooDeep(span)
        self._count(node, span)
        self._check_tag(node, span)
        self._open.add(id(node))
        try:
            match node:
                case ScalarNode():
                    return self._scalar(node, span)
                case SequenceNode():
                    return Items([self.node(item) for item in node.value], span)
                case MappingNode():
                    return self._fields(node, span)
                case _:
                    raise TypeError(f"no such node of YAML: {node!r}")
        finally:
            self._open.discard(id(node))

    def _count(self, node: YamlNode, span: Span) -> None:
        """Count values that aliases repeat, and limit them: a few aliases can stand for billions of
        values."""
        if id(node) not in self._seen:
            self._seen.add(id(node))
            return
        self._aliased += 1 + (len(node.value) // 16 if isinstance(node, ScalarNode) else 0)
        if self._aliased > MAX_ALIASED_VALUES:
            raise _TooManyAliased(span)

    def _check_tag(self, node: YamlNode, span: Span) -> None:
        tag = str(node.tag)
        if tag not in _KNOWN_TAGS:
            message = f"The tag {_short(tag)} is not supported; a net can contain only JSON values"
            self._findings.error("yaml.tag", message, span)

    def _fields(self, node: MappingNode, span: Span) -> Fields:
        fields: dict[str, Node] = {}
        keys: dict[str, Span] = {}
        for key, value in self._pairs(node):
            name, at = str(key.value), self._span(key)
            if name in fields:
                self._findings.error("yaml.duplicate", f"'{name}' is here twice", at)
                continue
            fields[name], keys[name] = self.node(value), at
        return Fields(fields, keys, span)

    def _pairs(self, node: MappingNode) -> Iterator[tuple[ScalarNode, YamlNode]]:
        for key, value in node.value:
            if isinstance(key, ScalarNode) and str(key.tag) == _MERGE:
                message = "YAML 1.2 has no merge keys (<<); write the keys out"
                self._findings.error("yaml.key", message, self._span(key))
            elif not isinstance(key, ScalarNode):
                self._findings.error(
                    "yaml.key", "A key must be a string, not a list or mapping", self._span(key)
                )
            elif not _is_unicode(str(key.value)):
                self._findings.error("yaml.text", _SURROGATE, self._span(key))
            else:
                yield key, value

    def _scalar(self, node: ScalarNode, span: Span) -> Scalar:
        style = node.style or ""
        indent = self._indent(span) if style in ("|", ">") else 0
        return Scalar(self._value(node, span, style), span, style, indent)

    def _value(self, node: ScalarNode, span: Span, style: str) -> str | int | float | bool | None:
        text, tag = str(node.value), str(node.tag)
        if not _is_unicode(text):
            self._findings.error("yaml.text", _SURROGATE, span)
            return None
        if style or tag in _STRING_TAGS:
            return text
        match tag.rpartition(":")[2]:
            case "null":
                return None
            case "bool":
                # `yes`, `on` and `y` are booleans only in a file with the directive `%YAML 1.1`.
                return text.lower() in ("true", "yes", "on", "y")
            case "int":
                return self._integer(text, span)
            case "float":
                return self._float(text, span)
            case _:
                return None  # `_check_tag` has reported this tag

    def _integer(self, text: str, span: Span) -> int | None:
        if len(text) > MAX_DIGITS:
            message = f"The number has {len(text):,} digits; at most {MAX_DIGITS:,} are allowed"
            self._findings.error("value.number", message, span)
            return None
        digits = text.replace("_", "")
        is_decimal = digits.lstrip("+-")[:2].lower() not in ("0x", "0o")
        try:
            return int(digits) if is_decimal else int(digits, 0)
        except ValueError:
            self._report_invalid_number(text, span)
            return None

    def _float(self, text: str, span: Span) -> float | None:
        try:
            number = float(text.replace("_", ""))
        except ValueError:  # also for .inf and .nan
            number = math.nan
        if math.isfinite(number):
            return number
        self._report_invalid_number(text, span)
        return None

    def _report_invalid_number(self, text: str, span: Span) -> None:
        message = f"{_short(text)} is not a JSON number"
        self._findings.error("value.number", message, span)

    def _indent(self, span: Span) -> int:
        """The indentation of the first line of a block that has text."""
        for line in self._lines[span.line :]:
            if line.strip():
                return len(line) - len(line.lstrip(" "))
        return 0

    def _span(self, node: YamlNode) -> Span:
        start, end = node.start_mark, node.end_mark
        return Span(self._file, start.line + 1, start.column + 1, end.line + 1, end.column + 1)


def _is_unicode(text: str) -> bool:
    """False for half of a surrogate pair (`"\\ud800"`), which no file or terminal can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


def _error_message(error: MarkedYAMLError) -> str:
    problem = str(error.problem or error.context or error).strip()
    return f"Not valid YAML: {problem}"


def _error_span(error: MarkedYAMLError, file: str) -> Span | None:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return None
    return Span(file, mark.line + 1, mark.column + 1, mark.line + 1, mark.column + 2)
