"""The second part of the demo: approval of a command, review of changes, and a checkpoint."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable
from datetime import datetime
from typing import Any, Final, TypeVar

from bascule.core.actions import CmdRun
from bascule.core.observations import CmdOutput
from bascule.hub.approvals import Question
from bascule.runtime.demo import FOLDER, DemoMessage, Pause, Say
from bascule.runtime.verbs import expect
from bascule.runtime.vscode import VSCodeRuntime

from .person import DemoPerson

DONE: Final = (
    "ran a command that a person allowed always, had one change kept and another undone, and got a "
    "deleted file back from a checkpoint"
)
_LIST_FILE: Final = f"{FOLDER}/shopping.md"
_LIST_TEXT: Final = """\
# Shopping list of {time}

- bread
- cheese
- apples
"""
_BREAD: Final = "- two loaves of bread"
_CAKE: Final = "- cake instead of apples"

_Result = TypeVar("_Result")


class TrustSteps:
    """Plays the steps of the agent and of the scripted person, each announced first."""

    def __init__(self, agent: VSCodeRuntime, person: DemoPerson, *, say: Say, pause: Pause) -> None:
        self._agent = agent
        self._person = person
        self._say = say
        self._pause = pause

    async def play(self) -> None:
        """Play all steps. Playing again starts from the beginning, but rules stay."""
        await self._allow_always()
        await self._pause()
        await self._review()
        await self._pause()
        await self._restore()

    async def run_allowed_once(self, command: str) -> CmdOutput:
        """Run a command of the agent, which the person allows once if the window asks."""
        return await self._run(command, "once")

    # ----------------------------------------------------------------------------------------

    async def _allow_always(self) -> None:
        command = f"wc -l {FOLDER}/bill.py"
        self._step(f"wants to count lines: {command}")
        self._seen((await self._run(command, "always")).content)
        await self._pause()
        self._step("runs the same command again: the rule allows it without a question")
        self._seen((await self._agent.run(command)).content)

    async def _review(self) -> None:
        folders = self._agent.window.folders
        path = f"{folders[0].path if folders else '.'}/{_LIST_FILE}"
        self._step(f"writes a list, {_LIST_FILE}")
        # The time makes the text differ from that of an earlier play. If the person kept that list,
        # writing the same text would change nothing, and the review would not list the file.
        await self._agent.write(
            path, _LIST_TEXT.format(time=datetime.now().isoformat(" ", "seconds"))
        )
        await self._person.review(_LIST_FILE, "keep")
        self._seen("A person keeps the new file.")
        await self._pause()
        self._step("changes the list in two places")
        await self._agent.edit(path, "str_replace", old_str="- bread", new_str=_BREAD)
        await self._agent.edit(path, "str_replace", old_str="- apples", new_str=_CAKE)
        await self._pause()
        self._step("gets a review: a person keeps one change and undoes the other")
        await self._person.review(_LIST_FILE, "keep", line=_BREAD)
        await self._person.review(_LIST_FILE, "undo", line=_CAKE)
        self._seen(f"kept:   {_BREAD}\nundone: {_CAKE}")

    async def _restore(self) -> None:
        command = f"rm {_LIST_FILE}"
        self._step(f"deletes the list by mistake: {command}")
        await self._run(command, "once")
        await self._pause()
        self._step("gets the list back: a person restores the checkpoint before that command")
        restored = await self._person.restore(command)
        self._seen("\n".join(f"restored: {each}" for each in restored))

    async def _run(self, command: str, answer: str) -> CmdOutput:
        """Run a command; the person answers the question about it after a pause.

        There is no question if an answer in an earlier demo added a rule.
        """
        action = CmdRun(command)
        running = asyncio.ensure_future(self._agent.act(action))
        try:
            question = await _unless_done(self._person.question(action.id), running)
            if question is not None:
                self._seen("VS Code asks a person whether the agent may run this command.")
                await _unless_done(self._pause(), running)
                if await self._person.answer(question, answer):
                    self._seen(_describe_answer(question, answer))
            else:
                self._seen("VS Code does not ask: the command is allowed already.")
            return expect(await running, CmdOutput)
        finally:
            running.cancel()
            await asyncio.wait({running})

    def _step(self, text: str) -> None:
        self._say(DemoMessage("step", text))

    def _seen(self, text: str) -> None:
        self._say(DemoMessage("seen", text.strip()))


def _describe_answer(question: Question, answer: str) -> str:
    if answer != "always":
        return "The person allows it once."
    rules = ", ".join(str(each["text"]) for each in question["proposals"])
    return f"The person allows it always. New rule for this agent: {rules}"


async def _unless_done(work: Awaitable[_Result], running: Future[Any]) -> _Result | None:
    """The result of `work`; None if `running` is done first."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task, running}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
