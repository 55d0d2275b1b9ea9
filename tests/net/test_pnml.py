"""PNML: place/transition nets are read, everything else is refused by name."""

from __future__ import annotations

import pytest

from bascule.net import Loaded, explore, load_bytes
from bascule.net.model import ArcKind, PlaceId, TransitionId

TYPE = "http://www.pnml.org/version-2009/grammar/ptnet"


def read(contents: str, type: str = TYPE) -> Loaded:
    text = f"""<?xml version="1.0"?>
<pnml xmlns="http://www.pnml.org/version-2009/grammar/pnml">
<net id="n" type="{type}"><name><text>A net</text></name>
{contents}
</net></pnml>
"""
    return load_bytes(text.encode(), "a.pnml")


def test_markings_weights_pages_and_references_are_read() -> None:
    found = read(
        """<page id="a">
        <place id="p"><name><text>P</text></name>
          <initialMarking><text> 4 </text></initialMarking></place>
        <page id="b"><transition id="t"/><referencePlace id="r" ref="p"/>
        <arc id="x" source="r" target="t"><inscription><text>2</text></inscription></arc></page>
        </page>"""
    ).unwrap()

    assert (found.name, len(found.places[PlaceId("p")].initial)) == ("A net", 4)
    assert found.wiring[TransitionId("t")].takes == (("p", 2),)
    assert explore(found).states == 3


@pytest.mark.parametrize(
    "kind",
    ['type="inhibitor">', '><type value="inhibitor"/>', "><type><text>inhibitor</text></type>"],
)
def test_inhibitor_arcs_are_read_in_every_spelling(kind: str) -> None:
    found = read(
        f"""<place id="p"/><transition id="t"/><arc id="a" source="t" target="p"/>
        <arc id="b" source="p" target="t" {kind}</arc>"""
    ).unwrap()

    assert found.wiring[TransitionId("t")].inhibitors == (("p", 1),)
    assert explore(found).states == 2


@pytest.mark.parametrize(
    ("contents", "code", "line"),
    [
        ('<place id="p">', "xml.syntax", 5),
        ('<place/>', "id.missing", 4),
        ('<place id="p"/><place id="p"/>', "id.duplicate", 4),
        ('<arc id="a" source="x" target="y"/>', "arc.endpoint", 4),
        ('<place id="p"><initialMarking><text>x</text></initialMarking></place>', "value.type", 4),
        ('<place id="p"/><transition id="t"/><arc id="a" source="p" target="t" type="z"/>',
         "arc.kind", 4),
    ],
)  # fmt: skip
def test_pnml_problems_are_reported_at_their_line(contents: str, code: str, line: int) -> None:
    loaded = read(contents)

    assert (code, line) in [(each.code, each.span.line) for each in loaded.diagnostics]
    assert loaded.net is None


def test_a_high_level_net_is_refused_by_name() -> None:
    loaded = read("", type="http://www.pnml.org/version-2009/grammar/symmetricnet")

    assert "symmetricnet" in loaded.diagnostics[0].message


def test_entities_are_not_expanded() -> None:
    bomb = b'<!DOCTYPE pnml [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><pnml>&b;</pnml>'
    loaded = load_bytes(bomb, "a.pnml")

    assert [each.code for each in loaded.diagnostics] == ["xml.refused"]


def test_arcs_of_tapaal_are_read() -> None:
    loaded = read(
        """<place id="p" initialMarking="2"/><place id="q"/><transition id="t"/>
        <inputArc source="p" target="t" inscription="[0,inf)"/>
        <inhibitorArc source="q" target="t">
          <inscription><value>3</value></inscription>
        </inhibitorArc>
        <outputArc source="t" target="q"><inscription><value>2</value></inscription></outputArc>""",
        type="P/T net",
    )

    net = loaded.unwrap()
    assert net.places[PlaceId("p")].initial == (None, None)
    assert [(arc.weight, arc.kind) for arc in net.arcs] == [
        (1, ArcKind.NORMAL),
        (3, ArcKind.INHIBITOR),
        (2, ArcKind.NORMAL),
    ]


def test_arcs_with_a_duplicate_id_are_read_with_a_warning() -> None:
    """WoPeD writes such files."""
    arc = '<arc id="a" source="p" target="t"/>'
    loaded = read(f'<place id="p"/><transition id="t"/>\n{arc}\n{arc}\n{arc}')

    assert len(loaded.unwrap().arcs) == 3
    assert [(each.code, each.span.line) for each in loaded.diagnostics] == [
        ("id.duplicate", 6),
        ("id.duplicate", 7),
    ]


def test_a_rejected_entity_is_reported_at_its_line() -> None:
    bomb = b'<?xml version="1.0"?>\n<!DOCTYPE pnml [\n<!ENTITY lol "lol">]><pnml/>'
    (found,) = load_bytes(bomb, "a.pnml").diagnostics

    assert found.span.line == 3
    assert found.message == "The file declares the entity 'lol'; write its text out instead"
