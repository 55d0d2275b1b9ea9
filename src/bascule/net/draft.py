"""A net while it is being read: everything found so far, checked as a whole at the end."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from . import inscriptions
from .diagnostics import Findings, Loaded
from .model import Arc, ArcKind, Inscription, Net, Place, PlaceId, Span, Transition, TransitionId


@dataclass(slots=True)
class Draft:
    """Readers add what they see; `finish` says whether it is a net."""

    file: str
    text: str
    findings: Findings
    id: str = ""
    name: str = ""
    places: dict[PlaceId, Place] = field(default_factory=dict)
    transitions: dict[TransitionId, Transition] = field(default_factory=dict)
    arcs: list[Arc] = field(default_factory=list)
    references: dict[str, tuple[str, Span]] = field(default_factory=dict)
    """Ids that stand for another element."""
    _seen: dict[str, Span] = field(default_factory=dict)

    def add_place(self, place: Place) -> None:
        if self._is_new(place.id, place.span):
            self.places[place.id] = place

    def add_transition(self, transition: Transition) -> None:
        if self._is_new(transition.id, transition.span):
            self.transitions[transition.id] = transition

    def add_reference(self, id: str, target: str, span: Span) -> None:
        if self._is_new(id, span):
            self.references[id] = (target, span)

    def add_arc(self, arc: Arc) -> None:
        if self._is_new(arc.id, arc.span):
            self.arcs.append(arc)

    def finish(self) -> Loaded:
        """The net, if nothing is wrong with it."""
        self._check_references()
        self.arcs = [self._resolved(arc) for arc in self.arcs]
        for arc in self.arcs:
            self._check_arc(arc)
        for inscription in self._inscriptions():
            self.findings.add(inscriptions.check(inscription))
        if self.findings.has_errors:
            return Loaded(None, self.findings.sorted())
        self._look_for_oddities()
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

    def _is_new(self, id: str, span: Span) -> bool:
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
                self.findings.error("reference.unknown", self._unknown(target), span)

    def _target(self, end: str) -> str | None:
        passed: set[str] = set()
        while end in self.references:
            if end in passed:
                return None
            passed.add(end)
            end = self.references[end][0]
        return end

    def _resolved(self, arc: Arc) -> Arc:
        source, target = self._target(arc.source), self._target(arc.target)
        return replace(arc, source=source or arc.source, target=target or arc.target)

    def _check_arc(self, arc: Arc) -> None:
        lost = [end for end in (arc.source, arc.target) if not self._is_node(end)]
        for end in lost:
            self.findings.error("arc.endpoint", self._unknown(end), arc.span)
        if lost:
            return
        from_place = arc.source in self.places
        if from_place == (arc.target in self.places):
            what = "two places" if from_place else "two transitions"
            message = f"An arc joins a place and a transition; '{arc.id}' joins {what}"
            self.findings.error("arc.endpoint", message, arc.span)
        elif arc.kind is not ArcKind.NORMAL and not from_place:
            message = f"Only an arc from a place to a transition can be of kind '{arc.kind}'"
            self.findings.error("arc.kind", message, arc.span)
        elif arc.expression is not None and from_place:
            message = "An arc into a transition has no code; give the transition a guard instead"
            self.findings.error("arc.inscription", message, arc.expression.span)

    def _is_node(self, id: str) -> bool:
        return id in self.places or id in self.transitions

    def _unknown(self, id: str) -> str:
        near = difflib.get_close_matches(id, [*self.places, *self.transitions], 1)
        return f"There is no place or transition '{id}'" + (f"; is it '{near[0]}'?" if near else "")

    def _look_for_oddities(self) -> None:
        joined = {end for arc in self.arcs for end in (arc.source, arc.target)}
        for transition in self.transitions.values():
            if transition.id not in joined:
                message = f"No arc leads to or from '{transition.id}': it can fire without end"
                self.findings.warn("transition.alone", message, transition.span)
