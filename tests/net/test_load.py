"""Files become nets, or diagnostics at the right line and column. Never half a net."""

from __future__ import annotations

from pathlib import Path

import pytest

from bascule.core.errors import InvalidNet
from bascule.net import ArcKind, Loaded, load, load_bytes
from bascule.net.model import PlaceId, TransitionId
from tests.net.writing import FILE, net, read

EPIC = """\
pnml:
  net:
    - id: demo
      page:
        - id: page1
          place:
            - id: p1
              marking: [1]
            - id: p2
          transition:
            - id: t1
              arcs:
                - {id: a1, source: p1, target: t1}
                - {id: a2, source: t1, target: p2}
              inscriptions:
                - id: expr1
                  language: python
                  kind: expression
                  source: inline
                  code: |
                    x = 1

                    # a comment
                    return x
"""

EVOLVE = """\
pnml:
  net:
    - id: demo
      type: https://evolve.dev/pnml/hlpn/evolve-2009
      name: {text: A demo}
      page:
        - id: page1
          place:
            - id: p1
              name: {text: Here}
              evolve:
                initialTokens: [{value: 1, schemaRef: x}, {value: {a: [true, null]}}, yes, 1e3]
            - {id: p2, evolve: {final: true}}
          transition:
            - id: t1
              evolve:
                kind: compute
                priority: 3
                inscriptions:
                  - {id: g, language: python, kind: guard, code: token == 1}
          arc:
            - {id: a1, source: p1, target: t1, evolve: {weight: 2}}
            - {id: a2, source: t1, target: p2}
            - {id: a3, source: p2, target: t1, kind: inhibitor}
"""


def diagnostics_of(loaded: Loaded) -> list[tuple[str, int, int]]:
    return [(each.code, each.span.line, each.span.column) for each in loaded.diagnostics]


def test_the_short_dialect_loads_markings_arcs_and_inscriptions() -> None:
    found = load_bytes(EPIC.encode(), FILE).unwrap()

    assert found.places[PlaceId("p1")].initial == (1,)
    assert [(arc.source, arc.target) for arc in found.arcs] == [("p1", "t1"), ("t1", "p2")]
    (inscription,) = found.transitions[TransitionId("t1")].expressions
    assert inscription.code == "x = 1\n\n# a comment\nreturn x\n"
    assert (inscription.span.line, inscription.span.column) == (21, 21)


def test_the_evolve_dialect_loads_the_same_net_under_its_own_key() -> None:
    found = load_bytes(EVOLVE.encode(), FILE).unwrap()

    assert found.places[PlaceId("p1")].initial == (1, {"a": [True, None]}, "yes", 1000.0)
    assert found.places[PlaceId("p1")].name == "Here"
    assert found.final_places == {"p2"}
    assert found.transitions[TransitionId("t1")].priority == 3
    wiring = found.wiring[TransitionId("t1")]
    assert (wiring.takes, wiring.inhibitors) == ((("p1", 2),), (("p2", 1),))


def test_yaml_values_are_read_with_json_types() -> None:
    found = net("place: {id: p, marking: [yes, 010, 1:30, 2024-01-01, 0x10, ~, .5, 'q', \"s\"]}")

    assert found.places[PlaceId("p")].initial == (
        *("yes", 10, "1:30", "2024-01-01", 16, None, 0.5, "q", "s"),
    )


def test_a_number_as_marking_means_that_many_plain_tokens() -> None:
    assert net("place: {id: p, marking: 3}").places[PlaceId("p")].initial == (None, None, None)


def test_references_and_nested_pages_are_resolved() -> None:
    found = net(
        """
        place: {id: p}
        page:
          id: below
          transition: {id: t}
          referencePlace: {id: r, ref: p}
          arc: {id: a, source: r, target: t, weight: 3}
        """
    )

    assert found.wiring[TransitionId("t")].takes == (("p", 3),)


def test_two_arcs_from_one_place_need_the_sum_of_their_weights() -> None:
    found = net(
        """
        place: {id: p}
        transition: {id: t, arcs: [{source: p}, {source: p, weight: 2}]}
        """
    )

    assert found.wiring[TransitionId("t")].takes == (("p", 3),)


def test_an_arc_can_be_read_inhibitor_or_reset() -> None:
    found = net(
        """
        place: [{id: p}, {id: q}, {id: r}]
        transition:
          id: t
          arcs: [{source: p, kind: read}, {source: q, kind: inhibitor}, {source: r, kind: reset}]
        """
    )

    assert [arc.kind for arc in found.arcs] == [ArcKind.READ, ArcKind.INHIBITOR, ArcKind.RESET]


@pytest.mark.parametrize(
    ("body", "code", "line", "column"),
    [
        ("place: {id: p}\ntransition: {id: p}", "id.duplicate", 7, 24),
        ("place: [{name: x}]", "id.missing", 6, 19),
        ("plcae: [{id: x}]", "key.unknown", 6, 11),
        ("place: [{id: x, tokens: 3}]", "key.unknown", 6, 27),
        ("place: {id: p, marking: many}", "place.marking", 6, 35),
        ("arc: [{source: a, target: b}]", "arc.endpoint", 6, 17),
        ("place: [{id: p}, {id: q}]\narc: {source: p, target: q}", "arc.endpoint", 7, 16),
        ("place: {id: p}\ntransition: {id: t, arcs: {source: p, weight: 0}}", "arc.weight", 7, 57),
        ("place: {id: p}\ntransition: {id: t, arcs: {target: p, kind: read}}", "arc.kind", 7, 37),
        ("place: {id: p}\ntransition: {id: t, arcs: {source: p, kind: o}}", "value.unknown", 7, 55),
        ("place: {id: p}\nreferencePlace: {id: r, ref: z}", "reference.unknown", 7, 28),
        ("referencePlace: {id: r, ref: r}", "reference.circle", 6, 28),
        ("transition: {id: t, inscriptions: {code: 1 +}}", "python.syntax", 6, 55),
        ("transition: {id: t, inscriptions: {language: rust}}", "inscription.language", 6, 56),
        ("transition: {id: t, inscriptions: {source: uri, uri: x}}", "inscription.source", 6, 54),
        ("transition: {id: t, inscriptions: {id: x}}", "inscription.code", 6, 45),
        ("place: {id: p, id: q}", "yaml.duplicate", 6, 26),
        ("place: {id: p", "yaml.syntax", 6, 24),
        ("place: &a [*a]", "yaml.circle", 6, 18),
    ],
)  # fmt: skip
def test_an_invalid_net_reports_positions_and_yields_no_net(
    body: str, code: str, line: int, column: int
) -> None:
    loaded = read(body)

    assert (code, line, column) in diagnostics_of(loaded)
    assert loaded.net is None
    with pytest.raises(InvalidNet, match=f"{FILE}:{line}:{column}"):
        loaded.unwrap()


def test_a_misspelled_name_gets_a_suggestion() -> None:
    assert "is it 'place'?" in read("plcae: [{id: x}]").diagnostics[0].message
    lost = read("place: {id: start}\ntransition: {id: t, arcs: {source: strat}}")
    assert "is it 'start'?" in lost.diagnostics[0].message


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "yaml.documents"),
        ("a: 1\n---\nb: 2", "yaml.documents"),
        ("[]", "value.type"),
        ("pnml: {}", "key.missing"),
        ("pnml: {net: []}", "net.missing"),
        ("pnml: {net: [{id: a}, {id: b}]}", "net.several"),
        ("pnml: {net: [{}]}", "id.missing"),
        ("pnml: {net: {id: n, page: {id: p, place: !!python/name:os.system x}}}", "yaml.tag"),
        ("a: \x00", "yaml.syntax"),
    ],
)
def test_a_file_that_holds_no_net_says_so(text: str, code: str) -> None:
    loaded = load_bytes(text.encode(), FILE)

    assert code in [each.code for each in loaded.diagnostics]
    assert loaded.net is None


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    assert "No such file" in load(tmp_path / "none.evolve.yaml").diagnostics[0].message
    assert load_bytes(b"\xff\xfe", FILE).diagnostics[0].code == "file.unreadable"


def test_a_guard_without_a_value_loads_with_a_warning() -> None:
    loaded = read("transition: {id: t, inscriptions: {kind: guard, code: 'x = 1'}}")

    assert loaded.net is not None
    assert "guard.no_value" in [each.code for each in loaded.diagnostics]


def test_a_python_error_in_a_code_block_is_reported_at_its_line() -> None:
    loaded = load_bytes(EPIC.replace("return x", "return x +").encode(), FILE)

    assert diagnostics_of(loaded) == [("python.syntax", 24, 31)]
