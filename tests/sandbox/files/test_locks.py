"""A lock per key: turns for the same one, none for others, nothing kept."""

from __future__ import annotations

import threading

from bascule.sandbox.files.locks import KeyedLocks


def test_threads_with_the_same_lock_key_take_turns() -> None:
    locks = KeyedLocks()
    inside: list[str] = []
    first_is_in, let_go = threading.Event(), threading.Event()

    def first() -> None:
        with locks.hold("key"):
            inside.append("first in")
            first_is_in.set()
            let_go.wait(5)
            inside.append("first out")

    def second() -> None:
        with locks.hold("key"):
            inside.append("second in")

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    first_is_in.wait(5)
    threads[1].start()
    with locks.hold("other key"):
        let_go.set()
    for thread in threads:
        thread.join()

    assert inside == ["first in", "first out", "second in"]


def test_an_unused_lock_key_is_removed() -> None:
    locks = KeyedLocks()

    with locks.hold("a"), locks.hold("b"):
        assert len(locks._held) == 2

    assert len(locks._held) == 0
