"""What tmux writes in control mode, cut anywhere, comes out as the same events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bascule.sandbox.shell.tmux_control import (
    ControlReader,
    PaneOutput,
    TmuxClientChange,
    TmuxReply,
    unescaped,
)


def escaped(data: bytes) -> bytes:
    """As tmux does it."""
    return b"".join(
        b"\\%03o" % byte if byte < 32 or byte == ord("\\") else bytes([byte]) for byte in data
    )


@given(st.binary())
def test_every_byte_comes_back(data: bytes) -> None:
    assert unescaped(escaped(data)) == data


@given(st.lists(st.tuples(st.sampled_from(["%1", "%22"]), st.binary())), st.integers(1, 40))
def test_control_output_is_parsed_wherever_it_is_split(
    outputs: list[tuple[str, bytes]], size: int
) -> None:
    stream = b"".join(b"%%output %s %s\n" % (p.encode(), escaped(d)) for p, d in outputs)
    reader = ControlReader(1000)
    events = []
    for start in range(0, len(stream), size):
        events += reader.feed(stream[start : start + size], merge=False)
    assert all(isinstance(event, PaneOutput) for event in events)
    seen = [(event.pane, event.data) for event in events if isinstance(event, PaneOutput)]
    assert seen == outputs
    assert reader.position == 1000 + len(stream)
    merged = [event for event in ControlReader().feed(stream) if isinstance(event, PaneOutput)]
    for pane in ("%1", "%22"):
        whole = b"".join(event.data for event in merged if event.pane == pane)
        assert whole == b"".join(data for name, data in outputs if name == pane)
    assert [event.end for event in merged][-1:] == ([len(stream)] if outputs else [])


def test_adjacent_pieces_of_one_pane_are_joined() -> None:
    stream = b"%output %1 a\n%output %1 b\n%output %2 c\n%output %1 d\n"
    panes = [event for event in ControlReader().feed(stream) if isinstance(event, PaneOutput)]
    assert [(event.pane, event.data, event.end) for event in panes] == [
        ("%1", b"ab", 26),
        ("%2", b"c", 39),
        ("%1", b"d", 52),
    ]


def test_only_replies_to_our_own_commands_are_returned() -> None:
    stream = (
        b"%begin 1 260 0\nnot ours\n%end 1 260 0\n%session-changed $0 main\n"
        b"%begin 1 261 1\n%1 /dev/pts/3\n%output is text here\n%end 1 261 1\n"
        b"%begin 1 262 1\nno such pane\n%error 1 262 1\n"
    )
    assert ControlReader().feed(stream) == [
        TmuxReply(("%1 /dev/pts/3", "%output is text here"), is_error=False),
        TmuxReply(("no such pane",), is_error=True),
    ]


def test_attaching_and_detaching_clients_are_reported() -> None:
    stream = b"%client-session-changed /dev/pts/5 $1 main\n%client-detached /dev/pts/5\n"
    assert ControlReader().feed(stream) == [
        TmuxClientChange("/dev/pts/5", "main"),
        TmuxClientChange("/dev/pts/5", None),
    ]
