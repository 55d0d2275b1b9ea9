"""Generates net files that try to use up time or memory, or to be read as something else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

HEAD = "pnml:\n  net:\n    - id: hostile\n"


@dataclass(frozen=True)
class Hostile:
    """A file, and the answer to it: the code of an error, or the size of the net it is."""

    name: str
    make: Callable[[], bytes]
    code: str = ""
    places: int = 0
    tokens: int = 0

    @property
    def file(self) -> str:
        return f"{self.name}.{'pnml' if self.name.startswith('pnml') else 'evolve.yaml'}"


def hostile() -> list[Hostile]:
    return [*_yaml(), *_pnml()]


def _yaml() -> Iterator[Hostile]:
    def case(name: str, text: str | Callable[[], str], code: str = "", **size: int) -> Hostile:
        return Hostile(
            f"yaml_{name}", lambda: _text(text).encode("utf-8", "surrogatepass"), code, **size
        )

    yield case("alias_bomb", lambda: _bomb("[{}]", 9, 9), "yaml.aliases")
    yield case("alias_bomb_wide", lambda: _bomb("[{}]", 3, 1000), "yaml.aliases")
    yield case("alias_bomb_of_mappings", lambda: _bomb("{{{}}}", 9, 9), "yaml.aliases")
    yield case("alias_bomb_in_own_key", lambda: "x-a: 1\n" + _bomb("[{}]", 12, 8), "yaml.aliases")
    yield case("alias_bomb_of_pages", _bomb_of_pages, "yaml.aliases")
    yield case("alias_in_itself", f"{HEAD}      place: &a [*a]\n", "yaml.circle")
    yield case("alias_unknown", f"{HEAD}      place: *nowhere\n", "yaml.syntax")
    yield case("alias_chain", _chain_of_aliases, "yaml.depth")
    yield case("alias_of_long_text", _long_text_often, "yaml.aliases")
    yield case("alias_of_code", _code_often, "inscription.code")
    yield case("anchors_reused", _anchors_reused, places=1, tokens=5000)
    yield case("marking_of_billions", _place("4000000000"), "place.marking")
    yield case("marking_of_500_digits", _place("1" + "0" * 500), "place.marking")
    yield case("marking_in_sum", lambda: _places(20, "100000"), "place.marking")
    yield case("marking_at_the_limit", _place("1000000"), places=1, tokens=1_000_000)
    yield case("marking_negative", _place("-1"), "place.marking")
    yield case("token_of_5000_digits", _place(f"[{'9' * 5000}]"), "value.number")
    yield case("token_of_5000_hex_digits", _place(f"[0x{'f' * 5000}]"), "value.number")
    yield case("token_infinite", _place("[.inf]"), "value.number")
    yield case("token_not_a_number", _place("[.nan]"), "value.number")
    yield case("token_overflowing", _place("[1e999]"), "value.number")
    yield case("token_tagged", _place("[!!python/object/apply:os.system [id]]"), "yaml.tag")
    yield case("token_half_a_character", _place('["\\ud800"]'), "yaml.text")
    yield case("token_beyond_unicode", _place('["\\UFFFFFFFF"]'), "yaml.syntax")
    yield case("weight_of_60_digits", _arc(f"weight: {'9' * 60}"), "arc.weight")
    yield case("weight_in_sum", _heavy_arcs, "arc.weight")
    yield case("lists_20000_deep", _place("[" * 20_000), "yaml.depth")
    yield case("mappings_3000_deep", _place("{a: " * 3_000), "yaml.depth")
    yield case("dashes_20000_deep", f"{HEAD}      place:\n        {'- ' * 20_000}1\n", "yaml.depth")
    yield case("indented_2000_deep", _indented, "yaml.depth")
    yield case("pages_40_deep", lambda: _pages(40), places=1, tokens=1)
    yield case("pages_1000_deep", lambda: _pages(1000), "yaml.depth")
    yield case("200000_tokens", lambda: _place(f"[{'1,' * 200_000}1]"), "yaml.size")
    yield case("three_megabytes", lambda: f"# {'x' * 3_000_000}\n{HEAD}", "yaml.size")
    yield case("unclosed_text", lambda: f"{HEAD}      name: '{'x' * 1_900_000}", "yaml.syntax")
    yield case("key_of_a_megabyte", lambda: f"{HEAD}      {'k' * 900_000}: 1\n", "yaml.syntax")
    yield case("same_key_5000_times", lambda: HEAD + "      name: a\n" * 5_000, "yaml.duplicate")
    yield case("20000_unknown_keys", _unknown_keys, "key.unknown")
    yield case("key_is_a_mapping", f"{HEAD}      {{a: b}}: 1\n", "yaml.key")
    yield case("merge_key", f"x-b: &b {{id: p}}\n{HEAD}      place: [{{<<: *b}}]\n", "yaml.key")
    yield case("3000_lost_arcs", _lost_arcs, "arc.endpoint")
    yield case("references_in_a_row", lambda: _references(5_000), places=1, tokens=1)
    yield case("references_in_a_circle", lambda: _references(5_000, last="r1"), "reference.circle")
    yield case("code_of_many_nots", lambda: _code("not " * 40_000 + "1"), "python.depth")
    yield case("code_of_many_dots", lambda: _code("x" + ".y" * 90_000), "python.depth")
    yield case("code_of_many_brackets", lambda: _code("f(" * 90_000), "python.syntax")
    yield case("code_of_many_lines", lambda: _code("x;" * 90_000), places=1, tokens=1)
    yield case("code_of_5000_digits", lambda: _code("1" * 5_000), "python.syntax")
    yield case("code_of_a_great_power", _code("9**9**9**9"), places=1, tokens=1)
    yield case("nul", f"{HEAD}      name: a\0b\n", "yaml.syntax")
    yield Hostile("yaml_not_utf8", lambda: b"pnml: \xff\xfe\xff", "file.unreadable")
    yield case("many_documents", "---\na: 1\n" * 5_000, "yaml.documents")
    yield case("nothing", "", "yaml.documents")
    yield case("a_list", "- 1\n- 2\n", "value.type")


def _pnml() -> Iterator[Hostile]:
    def case(name: str, text: str | Callable[[], str], code: str = "", **size: int) -> Hostile:
        return Hostile(f"pnml_{name}", lambda: _text(text).encode(), code, **size)

    yield case("entity_bomb", _entity_bomb, "xml.refused")
    yield case(
        "external_entity", _with_doctype('<!ENTITY e SYSTEM "file:///etc/passwd">'), "xml.refused"
    )
    yield case(
        "external_dtd", '<!DOCTYPE pnml SYSTEM "http://127.0.0.1:9/x">' + _net(_P), "xml.refused"
    )
    yield case("parameter_entity", _with_doctype('<!ENTITY % e "x">'), "xml.refused")
    yield case("pages_50000_deep", lambda: _net('<page id="x">' * 50_000), "xml.depth")
    yield case("pages_80_deep", _deep_pages, places=1)
    yield case("drawing_50000_deep", lambda: _net("<graphics>" + "<a>" * 50_000), "xml.depth")
    yield case("300000_drawings", lambda: _net(_P + "<graphics/>" * 300_000), places=1)
    yield case("300000_others", lambda: _net(_P + "<other><a/></other>" * 150_000), places=1)
    yield case("marking_of_billions", _marked("4000000000"), "place.marking")
    yield case("marking_of_5000_digits", _marked("9" * 5_000), "value.type")
    yield case("marking_negative", _marked("-1"), "value.type")
    yield case("marking_in_other_digits", _marked("٣"), places=1, tokens=3)
    yield case(
        "marking_in_sum", lambda: _net(_place_xml("a", 10**6) + _place_xml("b", 1)), "place.marking"
    )
    yield case("weight_of_60_digits", _joined("9" * 60), "arc.weight")
    yield case("weight_of_nothing", _joined("0"), "value.type")
    yield case("coloured_marking", _net('<place id="p"><hlinitialMarking/></place>'), "net.type")
    yield case("coloured_place", _net(f'<place id="p"><type>{_SORT}</type></place>'), "net.type")
    yield case("coloured_arc", _net(f"{_P}{_T}{_coloured_arc()}"), "net.type")
    yield case(
        "coloured_guard",
        _net(f'<transition id="t"><condition>{_SORT}</condition></transition>'),
        "net.type",
    )
    yield case("coloured_declaration", _net(f"<declaration>{_SORT}</declaration>"), "net.type")
    yield case(
        "symmetric", _net(_P, "http://www.pnml.org/version-2009/grammar/symmetricnet"), "net.type"
    )
    yield case("of_tapaal", _net(_TAPAAL, "P/T net"), places=1, tokens=2)
    yield case(
        "with_transport_arc", _net(f'{_P}{_T}<transportArc source="p" target="t"/>'), "arc.kind"
    )
    yield case("with_time", _net('<place id="p" invariant="&lt;= 5"/>'), "net.type")
    yield case("same_arc_id", _net(f"{_P}{_T}{_A}{_A}"), places=1)
    yield case("same_place_id", _net(f"{_P}{_P}"), "id.duplicate")
    yield case(
        "place_of_100000_labels",
        lambda: _net('<place id="p">' + "<name/>" * 100_000 + "</place>"),
        "xml.size",
    )
    yield case(
        "350000_places",
        lambda: _net("".join(f'<place id="{n}"/>' for n in range(350_000))),
        "net.size",
    )
    yield case(
        "attribute_of_a_megabyte",
        lambda: _net('<place id="p" x="' + "x" * 1_000_000 + '"/>'),
        places=1,
    )
    yield case("20000_attributes", _many_attributes, places=1)
    yield case(
        "text_in_pieces",
        lambda: _net('<place id="p"><name>' + "&#10;" * 500_000 + "</name></place>"),
        places=1,
    )
    yield case("3000_lost_arcs", _lost_arcs_xml, "arc.endpoint")
    yield case("references_in_a_row", lambda: _references_xml(30_000), places=1)
    yield case("references_in_a_circle", lambda: _references_xml(30_000, "r1"), "reference.circle")
    yield case("ring_of_10000", _ring, places=10_000, tokens=1)
    yield case("cut_off", _net(_P)[:-20], "xml.syntax")
    yield case("two_nets", "<pnml>" + '<net id="n"/>' * 2 + "</pnml>", "net.several")
    yield case("no_net", "<pnml/>", "net.several")
    yield case("other_root", "<html/>", "pnml.root")
    yield case(
        "unknown_encoding", '<?xml version="1.0" encoding="klingon"?>' + _net(_P), "xml.syntax"
    )
    yield Hostile("pnml_utf16", lambda: _net(_P).encode("utf-16"), places=1)
    yield Hostile("pnml_nul", lambda: b"\0" * 100_000, "xml.syntax")
    yield case("nothing", "", "xml.syntax")
    yield case("too_many_bytes", lambda: _net(" " * 65_000_000), "xml.size")


def _text(text: str | Callable[[], str]) -> str:
    return text if isinstance(text, str) else text()


def _place(marking: str) -> str:
    return f"{HEAD}      place:\n        - {{id: p, marking: {marking}}}\n"


def _places(count: int, marking: str) -> str:
    each = (f"        - {{id: p{n}, marking: {marking}}}\n" for n in range(count))
    return f"{HEAD}      place:\n{''.join(each)}"


def _arc(more: str) -> str:
    arcs = f"[{{source: p, {more}}}]"
    return f"{_place('1')}      transition:\n        - {{id: t, arcs: {arcs}}}\n"


def _code(code: str) -> str:
    inscriptions = f"[{{kind: guard, code: '{code}'}}]"
    transition = f"{{id: t, arcs: [{{source: p}}], inscriptions: {inscriptions}}}"
    return f"{_place('1')}      transition: [{transition}]\n"


def _bomb(around: str, levels: int, width: int) -> str:
    """Each level repeats the one before it: `width ** levels` values in a few hundred bytes."""
    is_list = around.startswith("[")
    lines = ["x-0: &a0 [1]"]
    for level in range(1, levels + 1):
        aliases = [f"*a{level - 1}" if is_list else f"k{n}: *a{level - 1}" for n in range(width)]
        lines.append(f"x-{level}: &a{level} {around.format(', '.join(aliases))}")
    return "\n".join(lines) + f"\n{_place(f'[*a{levels}]')}"


def _bomb_of_pages() -> str:
    lines = ["x-0: &a0 [{id: page, place: [{id: p}]}]"]
    for level in range(1, 20):
        page = f"{{id: page, page: *a{level - 1}}}"
        lines.append(f"x-{level}: &a{level} [{', '.join([page] * 10)}]")
    return "\n".join(lines) + f"\n{HEAD}      page: *a19\n"


def _chain_of_aliases() -> str:
    lines = [f"x-0: &a0 {'[' * 50}{']' * 50}"]
    lines += [f"x-{n}: &a{n} {'[' * 50}*a{n - 1}{']' * 50}" for n in range(1, 60)]
    return "\n".join(lines) + f"\n{_place('[*a59]')}"


def _long_text_often() -> str:
    text = "x" * 500_000
    return f"x-a: &a '{text}'\n" + _place("[" + "*a, " * 10_000 + "]")


def _code_often() -> str:
    transitions = "".join(
        f"        - {{id: t{n}, inscriptions: [{{code: *a}}]}}\n" for n in range(15)
    )
    return f"x-a: &a '{'x;' * 45_000}x'\n{HEAD}      transition:\n{transitions}"


def _anchors_reused() -> str:
    return _place(f"[{', '.join(['&a 1'] * 5_000)}]")


def _heavy_arcs() -> str:
    arcs = ", ".join(["{target: p, weight: 900000}"] * 100)
    return f"{_place('1')}      transition:\n        - {{id: t, arcs: [{arcs}]}}\n"


def _indented() -> str:
    return "".join(f"{' ' * n}a:\n" for n in range(1_000)) + " " * 1_000 + "1\n"


def _pages(depth: int) -> str:
    opening = "".join(f"{{id: g{n}, page: " for n in range(depth))
    inner = "{id: last, place: [{id: p, marking: 1}]}"
    return f"{HEAD}      page: {opening}{inner}{'}' * depth}\n"


def _unknown_keys() -> str:
    return HEAD + "".join(f"      plase{n}: 1\n" for n in range(20_000))


def _lost_arcs() -> str:
    arcs = "".join(f"        - {{source: place_{n}, target: trans_{n}}}\n" for n in range(3_000))
    return f"{_places(3_000, '0')}      arc:\n{arcs}"


def _references(count: int, last: str = "p") -> str:
    each = (f"        - {{id: r{n}, ref: r{n + 1}}}\n" for n in range(count))
    end = f"        - {{id: r{count}, ref: {last}}}\n"
    return f"{_place('1')}      referencePlace:\n{''.join(each)}{end}"


_P = '<place id="p"/>'
_T = '<transition id="t"/>'
_A = '<arc id="a" source="p" target="t"/>'
_SORT = '<structure><usersort declaration="colour"/></structure>'
_TAPAAL = (
    '<place id="p" initialMarking="2" invariant="&lt; inf"/><transition id="t"/>'
    '<inputArc source="p" target="t"><inscription><value>2</value></inscription></inputArc>'
)


def _net(inside: str, kind: str = "http://www.pnml.org/version-2009/grammar/ptnet") -> str:
    return f'<pnml>\n<net id="n" type="{kind}">{inside}</net></pnml>'


def _with_doctype(declared: str) -> str:
    return f"<!DOCTYPE pnml [{declared}]>\n{_net(_P)}"


def _entity_bomb() -> str:
    entities = ['<!ENTITY a0 "lol">']
    entities += [f"<!ENTITY a{n} '" + f"&a{n - 1};" * 10 + "'>" for n in range(1, 12)]
    bomb = '<place id="p"><name><text>&a11;</text></name></place>'
    return f"<!DOCTYPE pnml [{''.join(entities)}]>\n{_net(bomb)}"


def _place_xml(name: str, tokens: int) -> str:
    text = f"<initialMarking><text>{tokens}</text></initialMarking>"
    return f'<place id="{name}">{text}</place>'


def _marked(tokens: str) -> str:
    text = f"<initialMarking><text>{tokens}</text></initialMarking>"
    return _net(f'<place id="p">{text}</place>')


def _joined(weight: str) -> str:
    inscription = f"<inscription><text>{weight}</text></inscription>"
    return _net(f'{_P}{_T}<arc id="a" source="p" target="t">{inscription}</arc>')


def _coloured_arc() -> str:
    return '<arc id="a" source="p" target="t"><hlinscription><text>x</text></hlinscription></arc>'


def _deep_pages() -> str:
    opening = "".join(f'<page id="g{n}">' for n in range(80))
    return _net(f"{opening}{_P}{'</page>' * 80}")


def _many_attributes() -> str:
    attributes = " ".join(f'a{n}="1"' for n in range(20_000))
    return _net(f'<place id="p" {attributes}/>')


def _lost_arcs_xml() -> str:
    places = "".join(f'<place id="place_{n}"/>' for n in range(3_000))
    arcs = "".join(f'<arc id="a{n}" source="plaice_{n}" target="t_{n}"/>' for n in range(3_000))
    return _net(places + arcs)


def _references_xml(count: int, last: str = "p") -> str:
    row = "".join(f'<referencePlace id="r{n}" ref="r{n + 1}"/>' for n in range(count))
    return _net(f'{_P}{row}<referencePlace id="r{count}" ref="{last}"/>')


def _ring() -> str:
    size = 10_000
    parts = [_place_xml("p0", 1)]
    parts += [f'<place id="p{n}"/>' for n in range(1, size)]
    parts += [f'<transition id="t{n}"/>' for n in range(size)]
    parts += [f'<arc id="i{n}" source="p{n}" target="t{n}"/>' for n in range(size)]
    parts += [f'<arc id="o{n}" source="t{n}" target="p{(n + 1) % size}"/>' for n in range(size)]
    return _net("".join(parts))
