"""What the agent of `bascule demo` does: a small piece of work with a mistake to find."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from bascule.core.windows import Window
from bascule.runtime.vscode import VSCodeRuntime

FOLDER: Final = "bascule-demo"
_PRICES: Final = """\
{
  "bread": 3.2,
  "cheese": 7.5
  "apples": 4.0
}
"""
_BILL: Final = '''\
"""Adds up a shopping list."""

import json
from pathlib import Path

prices = json.loads(Path(__file__).with_name("prices.json").read_text())

print(sum(prices.values()))
'''
_PLAIN: Final = "print(sum(prices.values()))\n"
_PRETTY: Final = """\
for name, price in prices.items():
    print(f"{name:<10}{price:>8.2f}")
print(f"{'total':<10}{sum(prices.values()):>8.2f}")
"""


async def play(
    agent: VSCodeRuntime, window: Window, *, say: Callable[[str], None], pause: float
) -> None:
    """Do it step by step, with time to watch between two; each step is said before it is done."""
    root = window.folders[0].path if window.folders else "."
    folder = f"{root}/{FOLDER}"
    bill, prices = f"{folder}/bill.py", f"{folder}/prices.json"
    run = f"python3 {FOLDER}/bill.py"

    async def step(text: str) -> None:
        # A pause for people, not for a program: nothing is waited for.
        await asyncio.sleep(pause)
        say(f"[cyan]•[/] {text}")

    def result(text: str) -> None:
        for line in text.strip().splitlines():
            say(f"    [dim]{line.replace('[', chr(92) + '[')}[/]")

    say("[cyan]•[/] writes a program, bill.py")
    await agent.write(bill, _BILL)
    await step("writes its data, prices.json, and forgets a comma")
    await agent.write(prices, _PRICES)
    await step(f"runs it in a terminal: {run}")
    result((await agent.run(run)).content.strip().splitlines()[-1])
    await step("asks the editor what is wrong with prices.json")
    result((await agent.diagnostics(prices)).content.replace(f"{root}/", ""))
    await step("mends it: you can undo this with Ctrl-Z in the window")
    await agent.edit(prices, "str_replace", old_str="7.5\n", new_str="7.5,\n")
    await step("makes bill.py print a proper bill")
    await agent.edit(bill, "str_replace", old_str=_PLAIN, new_str=_PRETTY)
    await step(f"runs it again: {run}")
    result((await agent.run(run)).content)
    say(f"[green]✓[/] done; its work is in {FOLDER}/, the list of it in the window's Bascule view")
