"""Keys that a page sends to a terminal faster than that takes them."""

from __future__ import annotations

from bascule.hub.web.viewer import UntypedKeys


async def test_untyped_keys_are_queued_in_order_up_to_a_limit() -> None:
    waiting = UntypedKeys(max_weight=1000)
    waiting.put({"data": "first"})
    waiting.put({"data": "x" * 1000})
    waiting.put({"columns": 80, "rows": 24})
    assert await waiting.get() == {"data": "first"}
    assert await waiting.get() == {"columns": 80, "rows": 24}
    waiting.put({"data": "x" * 800})
    assert (await waiting.get())["data"] == "x" * 800


async def test_a_closed_terminal_queues_no_keys() -> None:
    waiting = UntypedKeys(max_weight=1000)
    waiting.put({"data": "a"})
    waiting.close()
    waiting.put({"data": "b"})
    assert waiting.is_empty
