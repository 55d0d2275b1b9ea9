"""Drawings: every node and arc is there, nothing overlaps, and any name is safe in them."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from bascule.net import Net, to_mermaid, to_svg
from bascule.net.layout import ROW, lay_out
from bascule.testing.nets import philosophers, ring
from tests.net.random_nets import nets
from tests.net.writing import net

SVG = "{http://www.w3.org/2000/svg}"

ODD = """
place: [{id: "<p&\\"", marking: [a]}, {id: many, marking: 7}, {id: few, marking: 2, final: true}]
transition:
  id: t
  name: A rather long name of a transition
  arcs: [{source: "<p&\\""}, {source: many, weight: 3, kind: inhibitor}, {target: few}]
"""


def test_the_drawing_has_every_node_and_arc_and_its_tokens() -> None:
    root = ElementTree.fromstring(to_svg(net(ODD)))
    groups = {group.get("data-id"): group for group in root.iter(f"{SVG}g") if group.get("data-id")}

    assert list(groups) == ['<p&"', "many", "few", "t"]
    tokens = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "tokens"]
    assert tokens == ["a", "7", "••"]
    arcs = [path.get("class") for path in root.iter(f"{SVG}path") if path.get("class")]
    assert arcs == ["arc normal", "arc inhibitor", "arc normal"]


def test_the_drawing_can_show_another_marking() -> None:
    assert ">••</text>" in to_svg(ring(2, 0), {"p1": (None, None)})


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(nets())
def test_no_two_nodes_overlap(net: Net) -> None:
    plan = lay_out(net)
    spots = list(plan.nodes.values())

    assert all(0 < x < plan.width and 0 < y < plan.height for x, y in spots)
    for (x1, y1), (x2, y2) in combinations(spots, 2):
        assert x1 != x2 or abs(y1 - y2) >= ROW * 0.99
    ElementTree.fromstring(to_svg(net))


def test_the_drawing_of_a_net_is_deterministic() -> None:
    assert to_svg(philosophers(5)) == to_svg(philosophers(5))


def test_mermaid_text_escapes_names_and_marks_arcs() -> None:
    assert to_mermaid(net(ODD)).splitlines() == [
        "flowchart LR",
        '  n0(("#60;p#38;#34;<br>a"))',
        '  n1(("many<br>7"))',
        '  n2(("few<br>••"))',
        '  n3["A rather long name of a transition"]',
        "  n0 --> n3",
        "  n1 --o|3| n3",
        "  n3 --> n2",
    ]
