"""Makes signals interrupt `input()` while it waits for a line."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_WAKE_SIGNAL = signal.SIGURG
"""A signal without a meaning here. By default a process ignores it."""
_PAUSES = (0.01, 0.1, 1.0)


@contextmanager
def signals_interrupt_input() -> Iterator[None]:
    """Run signal handlers soon, even if the main thread is blocked in `input`.

    readline runs handlers only when a signal interrupts its wait for a key. A signal that arrives
    just before this wait is handled only after the next key, so a SIGTERM may never be handled.
    Therefore each signal is followed by a few harmless signals, which interrupt the wait again.
    """
    main = threading.get_ident()
    stopped = threading.Event()
    arrived, arrives = socket.socketpair()
    arrives.setblocking(False)

    def repeat_signals() -> None:
        while numbers := arrived.recv(64):
            if set(numbers) - {_WAKE_SIGNAL}:
                for pause in _PAUSES:
                    if stopped.wait(pause):
                        return
                    signal.pthread_kill(main, _WAKE_SIGNAL)

    thread = threading.Thread(target=repeat_signals, name="bascule-signals", daemon=True)
    handler = signal.signal(_WAKE_SIGNAL, _do_nothing)
    wakeup = signal.set_wakeup_fd(arrives.fileno(), warn_on_full_buffer=False)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        signal.set_wakeup_fd(wakeup)
        arrives.close()
        thread.join()
        arrived.close()
        signal.signal(_WAKE_SIGNAL, handler)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    pass
