"""A session that opens as many pseudoterminals as it can and keeps them."""

from __future__ import annotations

from bascule.runtime.verbs import Verbs

_TAKE = """\
import os, time
taken = []
try:
    while len(taken) < 4000: taken.append(os.openpty())
except OSError as error: print(len(taken), error.strerror)
time.sleep(1000)
"""


async def take_terminals(runtime: Verbs) -> tuple[int, str]:
    """Returns how many it got, and the error at the next one. They stay open."""
    await runtime.write("take.py", _TAKE)
    await runtime.run("touch taken; ulimit -n $(ulimit -Hn); (python3 -u take.py >taken &)")
    seen = await runtime.run("tail -n +1 -f taken | head -n 1")
    count, _, error = seen.content.strip().partition(" ")
    return int(count), error


async def open_terminals(runtime: Verbs, count: int) -> int:
    """Returns how many of `count` terminals a program could open."""
    opened = await runtime.run(
        f"python3 -c 'import os; print(len([os.openpty() for _ in range({count})]))'"
    )
    return int(opened.content)
