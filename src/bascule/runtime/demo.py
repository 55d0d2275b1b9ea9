"""The script of the demo: an agent finds and fixes a small bug in a window."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from bascule.core.observations import CmdOutput

if TYPE_CHECKING:
    from .vscode import VSCodeRuntime

AGENT: Final = "Demo agent"
"""The name under which the demo acts."""
FOLDER: Final = "bascule-demo"

_PRICES: Final = """\
{
  "bread": 3.2,
  "cheese": 7.5
  "apples": 4.0
}
"""
_HEAD: Final = '''\
"""Adds up a shopping list."""

import json
from pathlib import Path

prices = json.loads(Path(__file__).with_name("prices.json").read_text())

'''
_PLAIN: Final = "print(sum(prices.values()))\n"
_PRETTY: Final = """\
for name, price in prices.items():
    print(f"{name:<10}{price:>8.2f}")
print(f"{'total':<10}{sum(prices.values()):>8.2f}")
"""
BUG_FIXED: Final = (
    f"wrote a program in {FOLDER}/, saw it fail, read the error in VS Code, fixed it, showed a "
    "diff before the next change, and saw it work"
)


@dataclass(frozen=True, slots=True)
class DemoMessage:
    """A message of the agent: the next step, an observation, or the final result."""

    kind: Literal["step", "seen", "done"]
    text: str


Say = Callable[[DemoMessage], None]
Pause = Callable[[], Awaitable[None]]
"""Waits between steps, so that a person can follow the demo."""

Run = Callable[[str], Awaitable[CmdOutput]]
"""Runs a command of the agent."""


async def play(agent: VSCodeRuntime, *, say: Say, pause: Pause) -> None:
    """Run all steps and announce each step before it begins. A second call starts again from the
    beginning."""
    await fix_a_bug(agent, run=agent.run, say=say, pause=pause)
    say(DemoMessage("done", BUG_FIXED))


async def fix_a_bug(agent: VSCodeRuntime, *, run: Run, say: Say, pause: Pause) -> None:
    """Run the steps without the final message. `run` may ask a person before each command."""
    folders = agent.window.folders
    root = folders[0].path if folders else "."
    folder = f"{root}/{FOLDER}"
    bill, prices = f"{folder}/bill.py", f"{folder}/prices.json"
    command = f"python3 {FOLDER}/bill.py"

    def step(text: str) -> None:
        say(DemoMessage("step", text))

    def seen(text: str) -> None:
        say(DemoMessage("seen", text.strip()))

    step("writes a program, bill.py")
    await agent.write(bill, _HEAD + _PLAIN)
    await pause()
    step("writes its data, prices.json, and forgets a comma")
    await agent.write(prices, _PRICES)
    await pause()
    step(f"runs it in a terminal: {command}")
    seen((await run(command)).content.strip().rpartition("\n")[2])
    await pause()
    step("reads the errors that VS Code reports in prices.json")
    seen((await agent.diagnostics(prices)).content.replace(f"{root}/", ""))
    await pause()
    step("fixes it (Ctrl-Z in the editor would undo the edit)")
    await agent.edit(prices, "str_replace", old_str="7.5\n", new_str="7.5,\n")
    await pause()
    step("shows a diff of its next change: print a formatted bill")
    await agent.show_diff(bill, _HEAD + _PRETTY, title="bill.py: print a formatted bill?")
    await pause()
    step("makes the change")
    await agent.edit(bill, "str_replace", old_str=_PLAIN, new_str=_PRETTY)
    await pause()
    step(f"runs it again: {command}")
    seen((await run(command)).content)
