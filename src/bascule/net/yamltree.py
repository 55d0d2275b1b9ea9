"""YAML as a tree in which every value knows where it is written.

YAML 1.2 with the values of JSON: `yes` is a text, `2024-01-01` is a text, `1e3` is a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.nodes import Node as YamlNode

from .diagnostics import Findings
from .model import Span

_MERGE = "tag:yaml.org,2002:merge"
_TEXTS = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:str")


@dataclass(frozen=True, slots=True)
class Scalar:
    value: str | int | float | bool | None
    span: Span
    style: str = ""
    """How it is written: `|`, `>`, `'`, `"`, or nothing for plain."""
    indent: int = 0
    """Of a block (`|`): the column, from 0, at which its lines begin."""


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
        """The value of the first of `names` that is there."""
        return next((self.fields[name] for name in names if name in self.fields), None)


Node: TypeAlias = Scalar | Items | Fields


def read(text: str, file: str, findings: Findings) -> Node | None:
    """The one document in `text`, or None when there is none; why is then in `findings`."""
    start = Span(file, 1, 1, 1, 1)
    try:
        documents = list(_Yaml(typ="rt", pure=True).compose_all(text))
    except MarkedYAMLError as error:
        findings.error("yaml.syntax", _complaint(error), _place(error, file) or start)
        return None
    except (YAMLError, ValueError) as error:
        findings.error("yaml.syntax", str(error).strip().splitlines()[0], start)
        return None
    if len(documents) != 1 or documents[0] is None:
        what = "is empty" if not any(documents) else f"holds {len(documents)} YAML documents"
        findings.error("yaml.documents", f"The file {what}; a net is one document", start)
        return None
    return _Reader(text, file, findings).node(documents[0])


def plain(node: Node) -> Any:
    """The value, without where it is written."""
    match node:
        case Scalar(value):
            return value
        case Items(items):
            return [plain(item) for item in items]
        case Fields(fields):
            return {name: plain(value) for name, value in fields.items()}


class _Yaml(YAML):
    def official_plug_ins(self) -> list[str]:
        return []  # it would look for some on the disk, each time


class _Reader:
    def __init__(self, text: str, file: str, findings: Findings) -> None:
        self._lines = text.splitlines()
        self._file = file
        self._findings = findings
        self._open: set[int] = set()

    def node(self, node: YamlNode) -> Node:
        span = self._span(node)
        if id(node) in self._open:
            self._findings.error("yaml.circle", "An alias that contains itself", span)
            return Scalar(None, span)
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
            if not isinstance(key, ScalarNode) or str(key.tag) == _MERGE:
                self._findings.error("yaml.key", "A key is a plain text", self._span(key))
            else:
                yield key, value

    def _scalar(self, node: ScalarNode, span: Span) -> Scalar:
        style = node.style or ""
        indent = self._indent(span) if style in ("|", ">") else 0
        return Scalar(self._value(node, span, style), span, style, indent)

    def _value(self, node: ScalarNode, span: Span, style: str) -> str | int | float | bool | None:
        text, tag = str(node.value), str(node.tag)
        if style or tag in _TEXTS:
            return text
        match tag.rpartition(":")[2]:
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int":
                return _integer(text)
            case "float":
                return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
            case _:
                self._findings.error("yaml.tag", f"The tag {tag} means nothing here", span)
                return None

    def _indent(self, span: Span) -> int:
        """Of the first line of a block that has text."""
        for line in self._lines[span.line :]:
            if line.strip():
                return len(line) - len(line.lstrip(" "))
        return 0

    def _span(self, node: YamlNode) -> Span:
        start, end = node.start_mark, node.end_mark
        return Span(self._file, start.line + 1, start.column + 1, end.line + 1, end.column + 1)


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    return int(digits, 0) if digits.lstrip("+-")[:2].lower() in ("0x", "0o") else int(digits)


def _complaint(error: MarkedYAMLError) -> str:
    problem = str(error.problem or error.context or error).strip()
    return f"This is no YAML: {problem}"


def _place(error: MarkedYAMLError, file: str) -> Span | None:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return None
    return Span(file, mark.line + 1, mark.column + 1, mark.line + 1, mark.column + 2)
