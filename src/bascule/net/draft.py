"""A net while its file is read, checked as a whole at the end."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from . import inscriptions
from .diagnostics import Findings, Loaded
from .model import Arc, ArcKind, Inscription, Net, Place, PlaceId, Span, Transition, TransitionId
from .sizes import MAX_CODE_CHARACTERS, MAX_ELEMENTS, MAX_TOKENS

_MAX_GUESSES = 20
"""Maximum number of unknown ids for which a similar id is searched. Each unknown id is compared
with up to `_MAX_COMPARED_IDS` ids."""
_MAX_COMPARED_IDS = 2_000
_MAX_GUESSED_LENGTH = 60


class TooLarge(Exception):
    """The net has too many elements; the findings have the reason."""


@dataclass(slots=True)
class Draft:
    """Readers add elements; `finish` checks them and returns the net or the errors."""

    file: str
    text: str
    findings: Findings
    id: str = ""
    name: str = ""
    places: dict[PlaceId, Place] = field(default_factory=dict)
    transitions: dict[TransitionId, Transition] = field(default_factory=dict)
    arcs: list[Arc] = field(default_factory=list)
    references: dict[str, tuple[str, Span]] = field(default_factory=dict)
    """Reference nodes by id: the id of the target, and the position of the reference."""
    _seen: dict[str, Span] = field(default_factory=dict)
    _arc_ids: set[str] = field(default_factory=set)
    _tokens: int = 0
    _guesses: int = 0
    _code: int = 0
    _ends: dict[str, str | None] = field(default_factory=dict)
    """Cache of `_target`: the end of each chain of references; None for a circle."""

    def add_place(self, place: Place) -> None:
        if not self._is_new(place.id, place.span):
            return
        self.places[place.id] = place
        before, self._tokens = self._tokens, self._tokens + len(place.initial)
        if before <= MAX_TOKENS < self._tokens:
            self.refuse_tokens(self._tokens, place.span)

    def add_transition(self, transition: Transition) -> None:
        if self._is_new(transition.id, transition.span):
            self.transitions[transition.id] = transition

    def add_reference(self, id: str, target: str, span: Span) -> None:
        if self._is_new(id, span):
            self.references[id] = (target, span)

    def add_arc(self, arc: Arc) -> None:
        if arc.id in self._arc_ids:
            # Only a warning: nothing refers to an arc, and WoPeD writes such files.
            message = f"The id '{arc.id}' is taken: line {self._seen[arc.id].line} has it"
            self.findings.warn("id.duplicate", message, arc.span)
            arc = replace(arc, id=f"{arc.id} ({arc.span.line}:{arc.span.column})")
        if self._is_new(arc.id, arc.span):
            self._arc_ids.add(arc.id)
            self.arcs.append(arc)

    def refuse_tokens(self, count: int, span: Span) -> None:
        message = f"{_number(count)} tokens; a marking has at most {MAX_TOKENS:,}"
        self.findings.error("place.marking", message, span)

    def refuse_weight(self, weight: int, span: Span) -> None:
        message = f"{_number(weight)} tokens at once; arcs take or put at most {MAX_TOKENS:,}"
        self.findings.error("arc.weight", message, span)

    def finish(self) -> Loaded:
        """Check the whole net, and return it or the errors."""
        self._check_references()
        self.arcs = [self._resolve_references(arc) for arc in self.arcs]
        for arc in self.arcs:
            self._check_arc(arc)
        self._check_weights()
        for inscription in self._inscriptions():
            self._check_code(inscription)
        if self.findings.has_errors:
            return Loaded(None, self.findings.sorted())
        self._check_unusual()
        net = Net(
            self.id,
            self.file,
            self.places,
            self.transitions,
            tuple(self.arcs),
            self.name,
            self.text,
        )
        return Loaded(net, self.findings.sorted())

    def _check_code(self, inscription: Inscription) -> None:
        before, self._code = self._code, self._code + len(inscription.code)
        if self._code <= MAX_CODE_CHARACTERS:
            self.findings.add(inscriptions.check(inscription))
        elif before <= MAX_CODE_CHARACTERS:
            message = (
                f"The net has more than {MAX_CODE_CHARACTERS:,} characters of code; import a module"
            )
            self.findings.error("inscription.code", message, inscription.span)

    def _is_new(self, id: str, span: Span) -> bool:
        if len(self._seen) >= MAX_ELEMENTS:
            message = f"More than {MAX_ELEMENTS:,} places, transitions and arcs; split the net"
            self.findings.error("net.size", message, span)
            raise TooLarge
        before = self._seen.setdefault(id, span)
        if before is span:
            return True
        message = f"The id '{id}' is taken: line {before.line} has it"
        self.findings.error("id.duplicate", message, span)
        return False

    def _inscriptions(self) -> Iterable[Inscription]:
        for transition in self.transitions.values():
            yield from transition.inscriptions
        yield from (arc.expression for arc in self.arcs if arc.expression is not None)

    def _check_references(self) -> None:
        for name, (target, span) in self.references.items():
            end = self._target(name)
            if end is None:
                self.findings.error("reference.circle", f"'{name}' refers to itself", span)
            elif not self._is_node(end):
                self.findings.error("reference.unknown", self._unknown_id_message(target), span)

    def _target(self, end: str) -> str | None:
        """The end of a chain of references; None for a circle. Follows each reference once."""
        passed: dict[str, None] = {}
        found: str | None = end
        while found in self.references:
            if found in self._ends:
                found = self._ends[found]
                break
            if found in passed:
                found = None
                break
            passed[found] = None
            found = self.references[found][0]
        self._ends.update(dict.fromkeys(passed, found))
        return found

    def _resolve_references(self, arc: Arc) -> Arc:
        source, target = self._target(arc.source), self._target(arc.target)
        return replace(arc, source=source or arc.source, target=target or arc.target)

    def _check_arc(self, arc: Arc) -> None:
        unknown_ends = [end for end in (arc.source, arc.target) if not self._is_node(end)]
        for end in unknown_ends:
            self.findings.error("arc.endpoint", self._unknown_id_message(end), arc.span)
        if unknown_ends:
            return
        from_place = arc.source in self.places
        if from_place == (arc.target in self.places):
            ends = "two places" if from_place else "two transitions"
            message = f"An arc joins a place and a transition; '{arc.id}' joins {ends}"
            self.findings.error("arc.endpoint", message, arc.span)
        elif arc.kind is not ArcKind.NORMAL and not from_place:
            message = f"Only an arc from a place to a transition can be of kind '{arc.kind}'"
            self.findings.error("arc.kind", message, arc.span)
        elif arc.expression is not None and from_place:
            message = "An arc into a transition has no code; give the transition a guard instead"
            self.findings.error("arc.inscription", message, arc.expression.span)

    def _check_weights(self) -> None:
        """Limit the sum of the weights of arcs from one node; readers limit each arc alone."""
        sums: dict[str, int] = {}
        for arc in self.arcs:
            before = sums.get(arc.source, 0)
            sums[arc.source] = before + arc.weight
            if before <= MAX_TOKENS < before + arc.weight and arc.weight <= MAX_TOKENS:
                self.refuse_weight(before + arc.weight, arc.span)

    def _is_node(self, id: str) -> bool:
        return id in self.places or id in self.transitions

    def _unknown_id_message(self, id: str) -> str:
        similar_ids: list[str] = []
        if self._guesses < _MAX_GUESSES and len(id) <= _MAX_GUESSED_LENGTH:
            self._guesses += 1
            names = [*self.places, *self.transitions][:_MAX_COMPARED_IDS]
            similar_ids = difflib.get_close_matches(id, names, 1)
        return f"There is no place or transition '{id}'" + (
            f"; is it '{similar_ids[0]}'?" if similar_ids else ""
        )

    def _check_unusual(self) -> None:
        joined = {end for arc in self.arcs for end in (arc.source, arc.target)}
        for transition in self.transitions.values():
            if transition.id not in joined:
                message = f"No arc leads to or from '{transition.id}': it can fire without end"
                self.findings.warn("transition.alone", message, transition.span)


def _number(value: int) -> str:
    return f"{value:,}" if value < 10**15 else f"More than 10^{len(str(value)) - 1}"
