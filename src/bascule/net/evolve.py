"""Reads `*.evolve.yaml` in two dialects, `evolve:` and short, which a file may mix.

In the `evolve:` dialect tokens, inscriptions and weights are below a key `evolve`, and arcs are in
a separate list. In the short dialect a place has `marking`, and a transition has `inscriptions` and
`arcs` directly below it. Known keys without meaning for a run (graphics, declarations, user
interface hints) are ignored. Unknown keys are errors.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from .diagnostics import Findings, Loaded
from .draft import Draft, TooLarge
from .model import (
    Arc,
    ArcKind,
    Inscription,
    InscriptionKind,
    Place,
    PlaceId,
    Span,
    Token,
    Transition,
    TransitionId,
)
from .sizes import MAX_TOKENS
from .yamltree import Fields, Items, Node, Scalar, plain, read

T = TypeVar("T")

_IDS: Final = ("id", "@id")
_COMMON: Final = (*_IDS, "name", "graphics", "toolspecific", "description")
_STRUCTURE: Final = (
    *("page", "place", "transition", "arc", "referencePlace", "referenceTransition"),
)
_KNOWN_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "file": ("pnml",),
    "pnml": ("net", "@xmlns"),
    "net": (*_COMMON, *_STRUCTURE, "type", "@type", "evolve"),
    "net.evolve": ("declarations", "schemaRegistry", "runtime"),
    "page": (*_COMMON, *_STRUCTURE, "evolve"),
    "page.evolve": ("layout", "groups"),
    "place": (*_COMMON, "marking", "final", "evolve"),
    "place.evolve": (
        *("initialTokens", "tokenSchemaRef", "tokenFormat", "tokenKind", "marking", "final"),
    ),
    "token": ("value", "schemaRef"),
    "name": ("text", "graphics"),
    "transition": (*_COMMON, "arcs", "inscriptions", "priority", "kind", "evolve"),
    "transition.evolve": ("kind", "inscriptions", "action", "manual", "priority"),
    "arc": (
        *(*_COMMON, "source", "@source", "target", "@target", "weight", "kind", "evolve"),
        *("inscription", "inscriptions"),
    ),
    "arc.evolve": ("inscription", "inscriptions", "weight", "kind"),
    "reference": (*_COMMON, "ref", "@ref", "evolve"),
    "inscription": (
        *("id", "@id", "language", "languageVersion", "kind", "execMode", "source", "code", "uri"),
        *("signature", "timeout", "sandbox", "description"),
    ),
}
"""The allowed keys of each kind of element. `net.evolve`: the allowed keys of the mapping below the
key `evolve` of a net."""
_NET_TYPE: Final = "https://evolve.dev/pnml/hlpn/evolve-2009"
_ARC_KINDS: Final = {str(kind): kind for kind in ArcKind} | {"test": ArcKind.READ}
_INSCRIPTION_KINDS: Final = {
    "guard": InscriptionKind.GUARD,
    "expression": InscriptionKind.EXPRESSION,
    "inscription": InscriptionKind.EXPRESSION,
}


def load_evolve(text: str, file: str) -> Loaded:
    """Read a net from YAML. Diagnostics have line and column."""
    findings = Findings()
    root = read(text, file, findings)
    draft = Draft(file, text, findings)
    if root is not None:
        with suppress(TooLarge):
            _EvolveReader(draft).file(root)
    return draft.finish()


class _EvolveReader:
    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._findings = draft.findings

    def file(self, root: Node) -> None:
        fields = self._fields(root, "file", "The file")
        pnml = fields and self._required(fields, "pnml", where="in this file")
        below = pnml and self._fields(pnml, "pnml", "'pnml'")
        nets = below and self._required(below, "net", where="below 'pnml'")
        if nets is None:
            return
        found = list(self._each(nets, "net", "A net"))
        if len(found) > 1:
            message = f"The file holds {len(found)} nets; put each into its own file"
            self._findings.error("net.several", message, found[1].span)
        elif not found:
            self._findings.error("net.missing", "'net' is an empty list", nets.span)
        else:
            self._net(found[0])

    def _net(self, net: Fields) -> None:
        self._draft.id = self._id(net, "net") or ""
        self._draft.name = self._name(net)
        declared = self._text(net, "type", "@type")
        if declared not in (None, _NET_TYPE):
            message = f"The net's type '{declared}' is unknown; the net is read as {_NET_TYPE}"
            self._findings.warn("net.type", message, self._span_of(net, "type", "@type"))
        self._evolve(net, "net")
        self._contents(net)

    def _contents(self, page: Fields) -> None:
        for place in self._children(page, "place", "A place"):
            self._place(place)
        for transition in self._children(page, "transition", "A transition"):
            self._transition(transition)
        for arc in self._children(page, "arc", "An arc"):
            self._arc(arc, None)
        for name in ("referencePlace", "referenceTransition"):
            for reference in self._children(page, name, "A reference", element_kind="reference"):
                self._reference(reference)
        for below in self._children(page, "page", "A page"):
            self._evolve(below, "page")
            self._contents(below)

    def _place(self, place: Fields) -> None:
        element_id = self._id(place, "place")
        evolve_fields = self._evolve(place, "place")
        is_final = self._flag(place, "final") or self._flag(evolve_fields, "final")
        tokens = [token for each in (place, evolve_fields) for token in self._tokens(each)]
        if element_id is not None:
            at = self._id_span(place)
            self._draft.add_place(
                Place(PlaceId(element_id), at, self._name(place), tuple(tokens), is_final)
            )

    def _tokens(self, place: Fields) -> Iterator[Token]:
        marking = place.get("marking")
        if isinstance(marking, Scalar) and type(marking.value) is int and marking.value >= 0:
            if marking.value > MAX_TOKENS:
                self._draft.refuse_tokens(marking.value, marking.span)
            else:
                yield from [None] * marking.value
        elif isinstance(marking, Items):
            yield from (plain(token) for token in marking.items)
        elif marking is not None:
            message = "'marking' must be a list of tokens, or the number of tokens without a value"
            self._findings.error("place.marking", message, marking.span)
        initial = place.get("initialTokens")
        if isinstance(initial, Items):
            yield from (self._token(token) for token in initial.items)
        elif initial is not None:
            self._type_error(initial, "'initialTokens' must be a list")

    def _token(self, token: Node) -> Token:
        """`{value: …}`, or the value itself."""
        if not isinstance(token, Fields) or "value" not in token.fields:
            return plain(token)
        self._check_keys(token, "token")
        return plain(token.fields["value"])

    def _transition(self, transition: Fields) -> None:
        element_id = self._id(transition, "transition")
        evolve_fields = self._evolve(transition, "transition")
        written = [
            inscription
            for each in (transition, evolve_fields)
            for node in self._children(
                each, "inscriptions", "An inscription", element_kind="inscription"
            )
            if (inscription := self._inscription(node, element_id or "")) is not None
        ]
        if element_id is None:
            return
        self._draft.add_transition(
            Transition(
                id=TransitionId(element_id),
                span=self._id_span(transition),
                name=self._name(transition),
                guards=tuple(each for each in written if each.kind is InscriptionKind.GUARD),
                expressions=tuple(
                    each for each in written if each.kind is not InscriptionKind.GUARD
                ),
                priority=self._number(transition, "priority")
                or self._number(evolve_fields, "priority")
                or 0,
            )
        )
        for arc in self._children(transition, "arcs", "An arc", element_kind="arc"):
            self._arc(arc, element_id)

    def _arc(self, arc: Fields, transition: str | None) -> None:
        source, target = self._text(arc, "source", "@source"), self._text(arc, "target", "@target")
        if transition is not None:
            # An arc below its transition may omit the transition's id.
            source, target = source or (target and transition), target or (source and transition)
        if not source or not target:
            missing = "source" if not source else "target"
            self._findings.error("arc.endpoint", f"An arc needs a '{missing}'", arc.span)
            return
        evolve_fields = self._evolve(arc, "arc")
        self._draft.add_arc(
            Arc(
                id=self._text(arc, *_IDS)
                or f"{source} → {target} ({arc.span.line}:{arc.span.column})",
                source=source,
                target=target,
                span=self._id_span(arc),
                weight=self._weight(arc) or self._weight(evolve_fields) or 1,
                kind=self._arc_kind(arc) or self._arc_kind(evolve_fields) or ArcKind.NORMAL,
                expression=self._arc_expression(arc) or self._arc_expression(evolve_fields),
            )
        )

    def _weight(self, arc: Fields) -> int | None:
        weight = self._number(arc, "weight")
        if weight is not None and weight < 1:
            self._findings.error(
                "arc.weight", "A weight is 1 or more", self._span_of(arc, "weight")
            )
        elif weight is not None and weight > MAX_TOKENS:
            self._draft.refuse_weight(weight, self._span_of(arc, "weight"))
        return weight

    def _arc_kind(self, arc: Fields) -> ArcKind | None:
        return self._choice(arc, "kind", _ARC_KINDS)

    def _arc_expression(self, arc: Fields) -> Inscription | None:
        found = [
            inscription
            for name in ("inscription", "inscriptions")
            for node in self._children(arc, name, "An inscription", element_kind="inscription")
            if (inscription := self._inscription(node, "arc")) is not None
        ]
        for extra in found[1:]:
            self._findings.error(
                "arc.inscription", "An arc can have only one inscription", extra.span
            )
        for each in found[:1]:
            if each.kind is InscriptionKind.GUARD or each.is_async:
                message = "The inscription of an arc must be a synchronous expression"
                self._findings.error("arc.inscription", message, each.span)
        return found[0] if found else None

    def _reference(self, reference: Fields) -> None:
        element_id, target = self._id(reference, "reference"), self._text(reference, "ref", "@ref")
        if target is None:
            self._findings.error("reference.unknown", "A reference needs a 'ref'", reference.span)
        elif element_id is not None:
            self._draft.add_reference(element_id, target, self._id_span(reference))

    # Inscriptions -------------------------------------------------------------------------

    def _inscription(self, node: Fields, owner: str) -> Inscription | None:
        """Read an inscription. Returns None, and adds a finding, if there is no code to run."""
        language = self._text(node, "language") or "python"
        if language != "python":
            message = f"Inscriptions are run in python; there is no runner for {language}"
            self._findings.error("inscription.language", message, self._span_of(node, "language"))
            return None
        source = self._text(node, "source") or "inline"
        if source != "inline":
            message = f"The code must be in the net itself (source: inline), not '{source}'"
            self._findings.error("inscription.source", message, self._span_of(node, "source"))
            return None
        code = node.get("code")
        if (
            not isinstance(code, Scalar)
            or not isinstance(code.value, str)
            or not code.value.strip()
        ):
            value = code.value if isinstance(code, Scalar) else None
            if value is None or isinstance(value, str):
                message = "An inscription needs its 'code', as a string"
                self._findings.error("inscription.code", message, (code or node).span)
                return None
        assert isinstance(code, Scalar)
        kind = self._choice(node, "kind", _INSCRIPTION_KINDS) or InscriptionKind.EXPRESSION
        is_async = self._choice(node, "execMode", {"sync": False, "async": True}) or False
        timeout = self._timeout(node, is_async=is_async)
        if kind is InscriptionKind.GUARD and is_async:
            message = "A guard cannot be async, because guards decide which transitions can fire"
            self._findings.error("guard.async", message, self._span_of(node, "execMode"))
        return Inscription(
            id=self._text(node, *_IDS) or f"{owner}_{kind}_{code.span.line}",
            kind=kind,
            code=_code(code),
            span=_code_span(code),
            is_async=is_async,
            timeout=timeout,
            lines_match_file=_lines_match_file(code),
        )

    def _timeout(self, node: Fields, *, is_async: bool) -> float | None:
        timeout = node.get("timeout")
        if timeout is None:
            return None
        value = timeout.value if isinstance(timeout, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            self._type_error(timeout, "'timeout' must be a number of seconds")
            return None
        if not is_async:
            message = "Only async code can be stopped: add 'execMode: async', or remove the timeout"
            self._findings.warn("inscription.timeout", message, timeout.span)
        return float(value)

    # Values -------------------------------------------------------------------------------

    def _fields(self, node: Node, element_kind: str, subject: str) -> Fields | None:
        """The mapping `node`, with its keys checked; None if it is not a mapping.

        `element_kind`: a key of `_KNOWN_KEYS`. `subject`: the subject of the error message.
        """
        if isinstance(node, Fields):
            self._check_keys(node, element_kind)
            return node
        keys = ", ".join(_KNOWN_KEYS[element_kind][:6])
        self._type_error(node, f"{subject} must be a mapping with keys such as {keys}")
        return None

    def _check_keys(self, node: Fields, element_kind: str) -> None:
        for name, at in node.keys.items():
            if name in _KNOWN_KEYS[element_kind] or name.startswith("x-"):
                continue
            near = difflib.get_close_matches(name, _KNOWN_KEYS[element_kind], 1)
            hint = f"; is it '{near[0]}'?" if near else ""
            message = f"A {element_kind.split('.')[0]} has no '{name}' here{hint}"
            self._findings.error("key.unknown", message, at)

    def _evolve(self, node: Fields, element_kind: str) -> Fields:
        """The mapping below the key `evolve`, or an empty mapping."""
        below = node.get("evolve")
        if below is None or (isinstance(below, Scalar) and below.value is None):
            return Fields({}, {}, node.span)
        return self._fields(below, f"{element_kind}.evolve", "'evolve'") or Fields(
            {}, {}, node.span
        )

    def _children(
        self, node: Fields, name: str, subject: str, *, element_kind: str | None = None
    ) -> Iterator[Fields]:
        below = node.get(name)
        if below is None or (isinstance(below, Scalar) and below.value is None):
            return
        yield from self._each(below, element_kind or name, subject)

    def _each(self, node: Node, element_kind: str, subject: str) -> Iterator[Fields]:
        """The mappings in a list; a single mapping counts as a list of one."""
        items: Sequence[Node] = node.items if isinstance(node, Items) else [node]
        for item in items:
            fields = self._fields(item, element_kind, subject)
            if fields is not None:
                yield fields

    def _required(self, node: Fields, name: str, *, where: str) -> Node | None:
        found = node.get(name)
        if found is None:
            self._findings.error("key.missing", f"There is no '{name}' {where}", node.span)
        return found

    def _id(self, node: Fields, element_kind: str) -> str | None:
        element_id = self._text(node, *_IDS)
        if not element_id:
            self._findings.error("id.missing", f"A {element_kind} needs an 'id'", node.span)
        return element_id

    def _id_span(self, node: Fields) -> Span:
        """The span from an element's key `id` to the end of the element."""
        key = next((node.keys[name] for name in _IDS if name in node.keys), node.span)
        end = node.span
        return Span(key.file, key.line, key.column, end.end_line, end.end_column)

    def _name(self, node: Fields) -> str:
        name = node.get("name")
        if isinstance(name, Fields):
            self._check_keys(name, "name")
            return self._text(name, "text") or ""
        return self._text(node, "name") or ""

    def _text(self, node: Fields, *names: str) -> str | None:
        found = node.get(*names)
        if found is None:
            return None
        if isinstance(found, Scalar) and isinstance(found.value, str | int | float):
            return str(found.value)
        self._type_error(found, f"'{names[0]}' must be a string")
        return None

    def _number(self, node: Fields, name: str) -> int | None:
        found = node.get(name)
        if found is None:
            return None
        if isinstance(found, Scalar) and type(found.value) is int:
            return found.value
        self._type_error(found, f"'{name}' must be an integer")
        return None

    def _flag(self, node: Fields, name: str) -> bool:
        found = node.get(name)
        if found is None or (isinstance(found, Scalar) and isinstance(found.value, bool)):
            return found is not None and bool(plain(found))
        self._type_error(found, f"'{name}' must be true or false")
        return False

    def _choice(self, node: Fields, name: str, choices: dict[str, T]) -> T | None:
        text = self._text(node, name)
        if text is None or text in choices:
            return None if text is None else choices[text]
        message = f"'{name}' must be one of {', '.join(choices)}, not '{text}'"
        self._findings.error("value.unknown", message, self._span_of(node, name))
        return None

    def _span_of(self, node: Fields, *names: str) -> Span:
        found = node.get(*names)
        return node.span if found is None else found.span

    def _type_error(self, node: Node, message: str) -> None:
        self._findings.error("value.type", message, node.span)


def _code(node: Scalar) -> str:
    """The code as text: YAML reads unquoted code such as `True` or `1` as a value."""
    return str(node.value)


def _code_span(node: Scalar) -> Span:
    at = node.span
    if node.style in ("|", ">"):
        return Span(at.file, at.line + 1, node.indent + 1, at.end_line, at.end_column)
    shift = 1 if node.style else 0
    return Span(at.file, at.line, at.column + shift, at.end_line, at.end_column)


def _lines_match_file(node: Scalar) -> bool:
    """Whether each line of the code is a line of the file."""
    return node.style == "|" or node.span.line == node.span.end_line
