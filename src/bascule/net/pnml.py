"""Reads `*.pnml` (ISO/IEC 15909-2): place/transition nets, with pages and reference nodes.

Weights and markings are numbers. Inhibitor, read and reset arcs are read in the spellings of common
tools. High-level and symmetric nets are refused: their meaning is different.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, Locator

import defusedxml.sax
from defusedxml.common import DefusedXmlException, EntitiesForbidden, ExternalReferenceForbidden

from .diagnostics import Findings, Loaded
from .draft import Draft, TooLarge
from .model import Arc, ArcKind, Place, PlaceId, Span, Transition, TransitionId
from .sizes import MAX_DEPTH, MAX_DIGITS, MAX_PNML_BYTES, MAX_TOKENS

_PLAIN_TYPES: Final = ("ptnet", "pnmlcoremodel", "ptnetb", "")
_PLAIN_NAMES: Final = ("p/t net", "p/t", "pt net")
"""The names of this type in files of TAPAAL, PIPE and old versions of WoPeD."""
_ARC_KINDS: Final = {
    "normal": ArcKind.NORMAL,
    "inhibitor": ArcKind.INHIBITOR,
    "reset": ArcKind.RESET,
    "read": ArcKind.READ,
    "test": ArcKind.READ,
}


_ARCS: Final = {
    "arc": ArcKind.NORMAL,
    "inputArc": ArcKind.NORMAL,
    "outputArc": ArcKind.NORMAL,
    "inhibitorArc": ArcKind.INHIBITOR,
}
"""Elements that are arcs. All except the first are from TAPAAL."""
_NODES: Final = ("place", "transition", *_ARCS, "referencePlace", "referenceTransition")
_ALWAYS: Final = "[0,inf)"
_FOR_EVER: Final = "<inf"
"""Time intervals without effect, in files of TAPAAL."""
_LABELS: Final = ("name", "initialMarking", "inscription", "type", "arctype", "text", "value")
_COLOURED: Final = ("hlinitialMarking", "hlinscription", "structure")
"""Elements that only coloured nets have; `structure` is a term or a sort."""
_DRAWINGS: Final = ("graphics", "toolspecific")
_MAX_LABELS: Final = 1_000
"""Maximum number of labels of one place, transition or arc."""


def load_pnml(data: bytes, file: str) -> Loaded:
    """Read a place/transition net from PNML."""
    draft = Draft(file, data.decode(errors="replace"), Findings())
    if len(data) > MAX_PNML_BYTES:
        message = f"The file has {len(data):,} bytes; at most {MAX_PNML_BYTES:,} are read"
        draft.findings.error("xml.size", message, Span(file, 1, 1, 1, 1))
    else:
        with suppress(_StopReading, TooLarge):
            _read(data, draft)
    return draft.finish()


class _StopReading(Exception):
    """Stops reading the file; the findings have the reason."""


@dataclass(slots=True)
class _Element:
    name: str
    """The name of the element without its namespace."""
    attributes: dict[str, str]
    span: Span
    children: list[_Element] = field(default_factory=list)
    text: str = ""

    def all(self, *names: str) -> list[_Element]:
        return [child for child in self.children if child.name in names]

    def label(self, name: str) -> str | None:
        """The `text` in the element `name` below this element."""
        for child in self.all(name):
            for text in child.all("text", "value"):
                return text.text.strip()
            return child.text.strip()
        return None


def _read(data: bytes, draft: Draft) -> None:
    builder = _Builder(draft)
    try:
        defusedxml.sax.parseString(data, builder, forbid_dtd=False)
    except SAXParseException as error:
        line, column = error.getLineNumber() or 1, (error.getColumnNumber() or 0) + 1
        span = Span(draft.file, line, column, line, column + 1)
        draft.findings.error("xml.syntax", f"Not valid XML: {error.getMessage()}", span)
    except (SAXException, DefusedXmlException) as error:
        draft.findings.error("xml.refused", _refusal_message(error), builder.here())
    except (LookupError, ValueError) as error:  # such as an encoding that Python lacks
        draft.findings.error("xml.syntax", f"Not valid XML: {error}", builder.here())


def _refusal_message(error: Exception) -> str:
    match error:
        case EntitiesForbidden():
            return f"The file declares the entity '{error.name}'; write its text out instead"
        case ExternalReferenceForbidden():
            return "The file refers to another file, which is not read; copy its text instead"
        case _:
            return f"XML that is refused: {error}"


class _Builder(ContentHandler):
    """Passes each complete place, transition and arc to a reader, and does not keep it in memory.

    Elements without meaning for a run, mainly drawings, are skipped.
    """

    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self._file = draft.file
        self._findings = draft.findings
        self._reader = _PnmlReader(draft)
        self._open: list[_Element] = []
        self._depth = 0
        self._skipped_from: int | None = None
        """The depth of the element below which nothing is kept."""
        self._label_count = 0
        """Number of elements in the node that is being read."""
        self._text: list[str] = []
        self._locator: Locator | None = None

    def setDocumentLocator(self, locator: Locator) -> None:  # noqa: N802 - the library's name
        self._locator = locator

    def here(self) -> Span:
        return self._span(0)

    def startElement(self, name: str, attrs: AttributesImpl) -> None:  # noqa: N802
        self._depth += 1
        if self._depth > MAX_DEPTH:
            message = f"Elements are nested more than {MAX_DEPTH} levels deep"
            self._findings.error("xml.depth", message, self.here())
            raise _StopReading
        if self._skipped_from is not None:
            return
        if name in _DRAWINGS:
            self._skipped_from = self._depth
            return
        short = name.rpartition(":")[2]
        element = _Element(short, dict(attrs.items()), self._span(len(name)))
        if self._is_kept(element):
            self._push_element(element)
        else:
            self._skipped_from = self._depth

    def endElement(self, name: str) -> None:  # noqa: N802, ARG002
        if self._skipped_from is None:
            self._end()
        elif self._skipped_from == self._depth:
            self._skipped_from = None
        self._depth -= 1

    def characters(self, content: str) -> None:
        if self._skipped_from is None:
            self._text.append(content)

    def endDocument(self) -> None:  # noqa: N802 - the library's name
        self._reader.end_document(self.here())

    def _is_kept(self, element: _Element) -> bool:
        if not self._open:
            self._reader.root(element)
            return True
        around = self._open[-1].name
        match element.name:
            case "net":
                if around == "pnml":
                    self._reader.net(element)
                return around == "pnml"
            case name if name == "page" or name in _NODES:
                return around in ("net", "page")
            case name if name in _COLOURED:
                self._reader.refuse_colours(element)
                return False
            case "declaration" | "condition":
                return around != "pnml"
            case name:
                if "source" in element.attributes and around in ("net", "page"):
                    self._reader.refuse_arc(element)
                return name in _LABELS

    def _push_element(self, element: _Element) -> None:
        self._label_count = 0 if element.name in _NODES else self._label_count + 1
        if self._label_count > _MAX_LABELS:
            message = f"More than {_MAX_LABELS:,} labels in one element"
            self._findings.error("xml.size", message, element.span)
            raise _StopReading
        self._flush()
        self._open.append(element)

    def _end(self) -> None:
        self._flush()
        element = self._open.pop()
        if element.name in _NODES:
            self._reader.node(element)
            self._label_count = 0
        elif self._open and element.name != "page":
            self._open[-1].children.append(element)
            if self._open[-1].name == "net" and element.name == "name":
                self._reader.set_name(self._open[-1])

    def _flush(self) -> None:
        if self._open:
            self._open[-1].text += "".join(self._text)
        self._text.clear()

    def _span(self, width: int) -> Span:
        assert self._locator is not None
        line = self._locator.getLineNumber() or 1
        column = (self._locator.getColumnNumber() or 0) + 1
        return Span(self._file, line, column, line, column + width + 1)


class _PnmlReader:
    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._findings = draft.findings
        self._nets = 0

    def root(self, root: _Element) -> None:
        if root.name != "pnml":
            message = f"PNML begins with <pnml>, this with <{root.name}>"
            self._findings.error("pnml.root", message, root.span)
            raise _StopReading

    def net(self, net: _Element) -> None:
        self._nets += 1
        if self._nets > 1:
            message = "The file contains several nets; put each into its own file"
            self._findings.error("net.several", message, net.span)
            raise _StopReading
        kind = net.attributes.get("type", "").strip()
        short = kind if kind.lower() in _PLAIN_NAMES else kind.rstrip("/").rpartition("/")[2]
        if short.lower() not in (*_PLAIN_TYPES, *_PLAIN_NAMES):
            message = f"Only place/transition nets are read from PNML, and this is a '{short}'"
            self._findings.error("net.type", message, net.span)
            raise _StopReading
        self._draft.id = net.attributes.get("id", "net")

    def set_name(self, net: _Element) -> None:
        self._draft.name = net.label("name") or ""

    def end_document(self, span: Span) -> None:
        if not self._nets:
            self._findings.error("net.several", "The file holds no net", span)

    def refuse_colours(self, element: _Element) -> None:
        """Report an error for a coloured net. Otherwise it would be read as a plain net with an
        empty marking."""
        message = (
            f"Only place/transition nets are read, and <{element.name}> belongs to a coloured net"
        )
        self._findings.error("net.type", message, element.span)
        raise _StopReading

    def refuse_arc(self, arc: _Element) -> None:
        """Report an error for an unknown kind of arc. Otherwise the net would be read without this
        arc."""
        message = f"There is no kind of arc '{arc.name}' in place/transition nets"
        self._findings.error("arc.kind", message, arc.span)

    def node(self, node: _Element) -> None:
        match node.name:
            case "place":
                self._place(node)
            case "transition":
                self._transition(node)
            case "referencePlace" | "referenceTransition":
                self._reference(node)
            case _:
                self._arc(node)

    def _place(self, place: _Element) -> None:
        named = self._id(place)
        if _without_spaces(place.attributes.get("invariant", _FOR_EVER)) != _FOR_EVER:
            message = "Only nets without time are read, and this place has an invariant"
            self._findings.error("net.type", message, place.span)
        tokens = self._count(place, "initialMarking", least=0)
        if tokens is not None and tokens > MAX_TOKENS:
            self._draft.refuse_tokens(tokens, place.span)
            tokens = None
        if named is not None:
            name = place.label("name") or ""
            self._draft.add_place(Place(PlaceId(named), place.span, name, (None,) * (tokens or 0)))

    def _transition(self, transition: _Element) -> None:
        named = self._id(transition)
        if named is not None:
            name = transition.label("name") or ""
            self._draft.add_transition(Transition(TransitionId(named), transition.span, name))

    def _arc(self, arc: _Element) -> None:
        source, target = arc.attributes.get("source"), arc.attributes.get("target")
        if not source or not target:
            self._findings.error("arc.endpoint", "An arc needs a source and a target", arc.span)
            return
        weight = self._count(arc, "inscription", least=1)
        if weight is not None and weight > MAX_TOKENS:
            self._draft.refuse_weight(weight, arc.span)
        self._draft.add_arc(
            Arc(
                id=arc.attributes.get("id")
                or f"{source} → {target} ({arc.span.line}:{arc.span.column})",
                source=source,
                target=target,
                span=arc.span,
                weight=1 if weight is None else weight,
                kind=self._kind(arc),
            )
        )

    def _kind(self, arc: _Element) -> ArcKind:
        """The kind of an arc, from `type="inhibitor"`, `<type value="inhibitor"/>`, or the same as
        a label."""
        named = arc.attributes.get("type")
        for child in arc.all("type", "arctype"):
            named = child.attributes.get("value") or child.text.strip() or named
            named = arc.label(child.name) or named
        kind = _ARCS[arc.name] if not named or arc.name != "arc" else _ARC_KINDS.get(named)
        if kind is None:
            self._findings.error("arc.kind", f"There is no kind of arc '{named}'", arc.span)
        return kind or ArcKind.NORMAL

    def _reference(self, reference: _Element) -> None:
        named, target = self._id(reference), reference.attributes.get("ref")
        if not target:
            self._findings.error("reference.unknown", "A reference needs a 'ref'", reference.span)
        elif named is not None:
            self._draft.add_reference(named, target, reference.span)

    def _id(self, element: _Element) -> str | None:
        named = element.attributes.get("id")
        if not named:
            self._findings.error("id.missing", f"A {element.name} needs an id", element.span)
        return named

    def _count(self, element: _Element, name: str, *, least: int) -> int | None:
        text = element.label(name)
        if text is None:
            text = element.attributes.get(name)  # TAPAAL writes numbers as attributes
        if not text or _without_spaces(text) == _ALWAYS:
            return None
        # Some tools write a colour before the number: `Default,1`.
        digits = text.rpartition(",")[2].strip()
        if digits.isdecimal() and len(digits) <= MAX_DIGITS and int(digits) >= least:
            return int(digits)
        short_text = text if len(text) <= 40 else f"{text[:40]}… ({len(text):,} characters)"
        message = f"'{name}' is a number of {least} or more, not '{short_text}'"
        self._findings.error("value.type", message, (element.all(name) or [element])[0].span)
        return None


def _without_spaces(text: str) -> str:
    return text.replace(" ", "")
