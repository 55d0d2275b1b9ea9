from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.core.errors import InvalidAction
from bascule.sandbox.browser.calls import CALLS, MAX_CALLS, MAX_TEXT, parse_calls
from bascule.sandbox.browser.page_actions import PageActions


def test_every_browser_call_can_be_executed() -> None:
    assert all(callable(getattr(PageActions, name, None)) for name in CALLS)


def test_browser_calls_are_parsed_in_order_with_defaults() -> None:
    calls = parse_calls("\nfill('a12', \"Hello (World)\")\nclick(7, modifiers=['Shift'])  # go\n")

    assert [call.name for call in calls] == ["fill", "click"]
    assert calls[0].arguments == {
        "bid": "a12",
        "value": "Hello (World)",
        "enable_autocomplete_menu": False,
    }
    assert calls[1].arguments == {"bid": "7", "button": "left", "modifiers": ["Shift"]}
    assert calls[1].text == "click(7, modifiers=['Shift'])"


def test_a_number_may_be_negative() -> None:
    assert parse_calls("scroll(0, -200.5)")[0].arguments == {"delta_x": 0, "delta_y": -200.5}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "The text contains no call"),
        ("click('1'", "is not a call"),
        ("x = click('1')", "is not a call"),
        ("click('1') if True else None", "is not a call"),
        ("teleport('home')", "teleport('home')\" is not a known call"),
        ("os.system('true')", "is not a known call"),
        ("click(click('1'))", "arguments must be strings"),
        ("click(*['1'])", "arguments must be strings"),
        ("goto(f'{1}')", "arguments must be strings"),
        ("goto()", "url is missing; it is goto(url)"),
        ("goto('a', 'b')", "it takes 1 arguments, not 2"),
        ("goto('a', url='b')", "url is given twice"),
        ("goto('a', wait=1)", "it has no parameter 'wait'"),
        ("goto(**{'url': 'a'})", "it has no parameter None"),
        ("goto(1)", "url must be str"),
        ("noop(True)", "wait_ms must be int or float"),
        ("noop(1e12)", "wait_ms must be int or float, up to 1000000000"),
        ("noop(60000)", "wait_ms must be 0 to 30000 milliseconds"),
        ("noop(-1)", "wait_ms must be 0 to 30000 milliseconds"),
        ("scroll(1e999, 0)", "delta_x must be int or float"),
        ("mouse_move(0, " + "9" * 400 + ")", "y must be int or float"),
        ("select_option('1', [1])", "options must be str or list"),
        ("tab_focus(1.5)", "index must be int"),
        ("(" * 5000, "is not a call"),
        ("goto(" + "[" * 150 + "]" * 150 + ")", ""),
    ],
)
def test_an_unknown_browser_call_is_rejected_by_name(text: str, complaint: str) -> None:
    with pytest.raises(InvalidAction) as refused:
        parse_calls(text)
    assert complaint in refused.value.message


def test_an_unknown_browser_call_lists_the_known_ones() -> None:
    with pytest.raises(InvalidAction, match=r"scroll\(delta_x, delta_y\)"):
        parse_calls("wheel(1)")


def test_calls_are_bounded_in_number_and_length() -> None:
    assert len(parse_calls("noop(0)\n" * MAX_CALLS)) == MAX_CALLS
    with pytest.raises(InvalidAction, match="the maximum is"):
        parse_calls("noop(0)\n" * (MAX_CALLS + 1))
    with pytest.raises(InvalidAction, match="the maximum is"):
        parse_calls("#" * (MAX_TEXT + 1))


@given(st.text(max_size=60))
def test_any_text_parses_as_browser_calls_or_is_rejected(text: str) -> None:
    try:
        calls = parse_calls(text)
    except InvalidAction:
        return
    assert all(call.name in CALLS for call in calls)
