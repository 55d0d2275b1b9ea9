"""A line of a net is bound to what happens there."""

from __future__ import annotations

import pytest

from bascule.debug.breakpoints import BreakpointTarget, bind, entry_line, possible_lines
from bascule.net import load_bytes

TEXT = """\
pnml:
  net:
    - id: n
      page:
        - id: main
          place:
            - id: p
              marking: [1]

            - {id: q}
          transition:
            - id: t
              arcs:
                - {id: a, source: p}
                - id: b
                  target: q
              inscriptions:
                - id: work
                  code: |
                    # first
                    x = 1

                    return x
            - id: u
              arcs: [{source: q}]
"""
NET = load_bytes(TEXT.encode(), "n.evolve.yaml").unwrap()


@pytest.mark.parametrize(
    ("line", "target", "element", "at"),
    [
        (7, BreakpointTarget.PLACE, "p", 7),
        (8, BreakpointTarget.PLACE, "p", 7),
        (9, BreakpointTarget.PLACE, "p", 7),
        (10, BreakpointTarget.PLACE, "q", 10),
        (12, BreakpointTarget.TRANSITION, "t", 12),
        (14, BreakpointTarget.TRANSITION, "t", 12),
        (16, BreakpointTarget.TRANSITION, "t", 12),
        (18, BreakpointTarget.TRANSITION, "t", 12),
        (20, BreakpointTarget.CODE, "work", 20),
        (23, BreakpointTarget.CODE, "work", 23),
        (24, BreakpointTarget.TRANSITION, "u", 24),
        (25, BreakpointTarget.TRANSITION, "u", 24),
    ],
)
def test_a_breakpoint_line_binds_to_the_innermost_element(
    line: int, target: BreakpointTarget, element: str, at: int
) -> None:
    bound = bind(NET, line)

    assert bound is not None
    assert (bound.target, bound.element, bound.line) == (target, element, at)


@pytest.mark.parametrize("line", [1, 3, 6, 11, 99])
def test_a_line_without_code_or_elements_has_no_breakpoint(line: int) -> None:
    assert bind(NET, line) is None


def test_a_step_into_a_transition_enters_at_its_first_line_of_code() -> None:
    assert (entry_line(NET, "t"), entry_line(NET, "u")) == (21, None)


def test_the_lines_that_accept_breakpoints_are_listed() -> None:
    assert possible_lines(NET, 1, 14) == [7, 10, 12]
