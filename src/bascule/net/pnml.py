"""Reads `*.pnml` (ISO/IEC 15909-2): place/transition nets, with pages and reference nodes.

Weights and markings are numbers. Inhibitor, read and reset arcs are understood in the spellings in
use. High-level and symmetric nets are refused: they mean something else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, Locator

import defusedxml.sax
from defusedxml.common import DefusedXmlException

from .diagnostics import Findings, Loaded
from .draft import Draft
from .model import Arc, ArcKind, Place, PlaceId, Span, Transition, TransitionId

_PLAIN_TYPES: Final = ("ptnet", "pnmlcoremodel", "ptNetb", "ptnetb", "")
_ARC_KINDS: Final = {
    "normal": ArcKind.NORMAL,
    "inhibitor": ArcKind.INHIBITOR,
    "reset": ArcKind.RESET,
    "read": ArcKind.READ,
    "test": ArcKind.READ,
}


def load_pnml(data: bytes, file: str) -> Loaded:
    """Read a place/transition net from PNML."""
    findings = Findings()
    draft = Draft(file, data.decode(errors="replace"), findings)
    root = _read(data, file, findings)
    if root is not None:
        _Reader(draft).document(root)
    return draft.finish()


@dataclass(slots=True)
class _Element:
    name: str
    """Without its namespace."""
    attributes: dict[str, str]
    span: Span
    children: list[_Element] = field(default_factory=list)
    text: str = ""

    def all(self, *names: str) -> list[_Element]:
        return [child for child in self.children if child.name in names]

    def label(self, name: str) -> str | None:
        """The `text` in the element `name` below this one."""
        for child in self.all(name):
            for text in child.all("text", "value"):
                return text.text.strip()
            return child.text.strip()
        return None


def _read(data: bytes, file: str, findings: Findings) -> _Element | None:
    builder = _Builder(file)
    try:
        defusedxml.sax.parseString(data, builder, forbid_dtd=False)
    except SAXParseException as error:
        line, column = error.getLineNumber() or 1, (error.getColumnNumber() or 0) + 1
        span = Span(file, line, column, line, column + 1)
        findings.error("xml.syntax", f"This is no XML: {error.getMessage()}", span)
        return None
    except (SAXException, DefusedXmlException) as error:
        findings.error("xml.refused", f"XML that is refused: {error}", Span(file, 1, 1, 1, 1))
        return None
    return builder.root


class _Builder(ContentHandler):
    def __init__(self, file: str) -> None:
        super().__init__()
        self.root: _Element | None = None
        self._file = file
        self._open: list[_Element] = []
        self._locator: Locator | None = None

    def setDocumentLocator(self, locator: Locator) -> None:  # noqa: N802 - the library's name
        self._locator = locator

    def startElement(self, name: str, attrs: AttributesImpl) -> None:  # noqa: N802
        assert self._locator is not None
        line = self._locator.getLineNumber() or 1
        column = (self._locator.getColumnNumber() or 0) + 1
        span = Span(self._file, line, column, line, column + len(name) + 1)
        element = _Element(name.rpartition(":")[2], dict(attrs.items()), span)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def endElement(self, name: str) -> None:  # noqa: N802, ARG002
        self._open.pop()

    def characters(self, content: str) -> None:
        if self._open:
            self._open[-1].text += content


class _Reader:
    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._findings = draft.findings

    def document(self, root: _Element) -> None:
        if root.name != "pnml":
            message = f"PNML begins with <pnml>, this with <{root.name}>"
            self._findings.error("pnml.root", message, root.span)
            return
        nets = root.all("net")
        if len(nets) != 1:
            message = f"The file holds {len(nets)} nets; a file of ours holds one"
            self._findings.error("net.several", message, (nets[1:] or [root])[0].span)
            return
        self._net(nets[0])

    def _net(self, net: _Element) -> None:
        kind = net.attributes.get("type", "").rstrip("/").rpartition("/")[2]
        if kind not in _PLAIN_TYPES:
            message = f"Only place/transition nets are read from PNML, and this is a '{kind}'"
            self._findings.error("net.type", message, net.span)
            return
        self._draft.id = net.attributes.get("id", "net")
        self._draft.name = net.label("name") or ""
        self._contents(net)

    def _contents(self, page: _Element) -> None:
        for child in page.children:
            match child.name:
                case "page":
                    self._contents(child)
                case "place":
                    self._place(child)
                case "transition":
                    self._transition(child)
                case "arc":
                    self._arc(child)
                case "referencePlace" | "referenceTransition":
                    self._reference(child)

    def _place(self, place: _Element) -> None:
        named = self._id(place)
        tokens = self._count(place, "initialMarking", least=0)
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
        """From `type="inhibitor"`, `<type value="inhibitor"/>`, or the same as a label."""
        named = arc.attributes.get("type")
        for child in arc.all("type", "arctype"):
            named = child.attributes.get("value") or child.text.strip() or named
            named = arc.label(child.name) or named
        kind = _ARC_KINDS.get(named or "normal")
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
        if not text:
            return None
        # Some tools write a colour before the number: `Default,1`.
        digits = text.rpartition(",")[2].strip()
        if digits.isdecimal() and int(digits) >= least:
            return int(digits)
        message = f"'{name}' is a number of {least} or more, not '{text}'"
        self._findings.error("value.type", message, element.all(name)[0].span)
        return None
