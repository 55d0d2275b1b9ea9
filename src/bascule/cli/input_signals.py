"""Makes signals interrupt `input()` while it waits for a line."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NUDGE = signal.SIGURG
"""Means nothing to us and nobody sends it; ignored by default."""
_PAUSES = (0.01, 0.1, 1.0)


@contextmanager
def signals_interrupt_input() -> Iterator[None]:
    """While open, a signal's handler runs soon even if the main thread sits in `input`.

    Line editing looks for signals only when its wait for a key is interrupted. One that arrives a
    moment before that wait begins would be handled after the next key; for a SIGTERM that is
    never. So after each signal the wait is interrupted again, a few times, by one that does
    nothing.
    """
    main = threading.get_ident()
    left = threading.Event()
    arrived, arrives = socket.socketpair()
    arrives.setblocking(False)

    def nudge() -> None:
        while numbers := arrived.recv(64):
            if set(numbers) - {_NUDGE}:
                for pause in _PAUSES:
                    if left.wait(pause):
                        return
                    signal.pthread_kill(main, _NUDGE)

    thread = threading.Thread(target=nudge, name="bascule-signals", daemon=True)
    handler = signal.signal(_NUDGE, _do_nothing)
    wakeup = signal.set_wakeup_fd(arrives.fileno(), warn_on_full_buffer=False)
    thread.start()
    try:
        yield
    finally:
        left.set()
        signal.set_wakeup_fd(wakeup)
        arrives.close()
        thread.join()
        arrived.close()
        signal.signal(_NUDGE, handler)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    pass
