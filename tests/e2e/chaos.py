"""Kills, freezes, reloads and cuts at random while agents act in a real window, then counts.

python -m tests.e2e.chaos --minutes 30 --seed 7 --load 20

Every action leaves one line behind. Afterwards each claim is compared with the files: what was
answered is there once, what is said not to have been sent is not there, and nothing is there
twice. The exit code is 1 if a claim was false. The seed is printed; the same seed makes the same
choices, though not the same timing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bascule.core.actions import Action, CmdRun, FileEdit
from bascule.core.errors import BasculeError, OutcomeUnknown
from bascule.core.observations import CmdOutput, FileEdited
from bascule.runtime.vscode import VSCodeRuntime
from tests.hub.serving import TcpRelay

from .rig import EditorWindow, Rig

_WORKERS = 6
_TIMEOUT = 90.0
_ACTION = 60.0
"""Seconds an action may take."""


class Claims:
    """What was said of each action, by the line it leaves."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}

    def check(self, folder: Path) -> list[str]:
        """Sentences about claims that are not true."""
        found = Counter(
            line for file in folder.glob("log.*") for line in file.read_text().split("\n") if line
        )
        wrong = [f"{line}: done {count} times" for line, count in found.items() if count > 1]
        for line, said in self.said.items():
            if said == "done" and not found[line]:
                wrong.append(f"{line}: answered as done, and lost")
            if said.startswith("not done") and found[line]:
                wrong.append(f"{line}: {said}, but it was")
        return wrong


async def _work(
    worker: int, agent: VSCodeRuntime, folder: Path, claims: Claims, end: float
) -> None:
    file = folder / f"log.edited.{worker}"
    file.write_text("")
    number = 0
    while time.monotonic() < end:
        number += 1
        line = f"{worker}.{number}"
        action: Action = (
            FileEdit(str(file), command="insert", insert_line=0, new_str=line, timeout=_ACTION)
            if number % 3 == 0
            else CmdRun(f"echo {line} >> log.{worker}", shell=f"w{worker}", timeout=_ACTION)
        )
        claims.said[line] = await _claim(agent, action)


async def _claim(agent: VSCodeRuntime, action: Action) -> str:
    try:
        seen = await agent.act(action)
    except OutcomeUnknown:
        return "unknown"
    except BasculeError as error:
        return f"not done: {error.code}" if error.detail.get("sent") is False else error.code
    if isinstance(seen, CmdOutput) and seen.exit_code == 0:
        return "done"
    if isinstance(seen, FileEdited) and not seen.error_id:
        return "done"
    code = str(getattr(seen, "error_id", "") or "failed")
    if code.startswith(("edit.", "path.")):  # the reasons for which an edit is not made
        return f"not done: {code}"
    return "unknown" if code == "outcome.unknown" else code


class Trouble:
    """One misfortune after the other, each ended before the next begins."""

    def __init__(
        self,
        rig: Rig,
        window: EditorWindow,
        relay: TcpRelay,
        agent: VSCodeRuntime,
        dice: random.Random,
    ) -> None:
        self._rig = rig
        self._window = window
        self._relay = relay
        self._agent = agent
        self._dice = dice
        self.made: Counter[str] = Counter()

    async def make(self, end: float) -> None:
        kinds = [self.cut, self.hold, self.cut_agents, self.freeze, self.reload, self.restart_hub]
        kinds += [self.crash, self.kill_host]
        while time.monotonic() < end:
            await asyncio.sleep(self._dice.uniform(1, 8))
            kind = self._dice.choice(kinds)
            self.made[kind.__name__] += 1
            print(f"{time.strftime('%H:%M:%S')} {kind.__name__}", flush=True)
            await kind(self._dice.uniform(0.5, 20))

    async def cut(self, seconds: float) -> None:
        await self._rig.on(_call(self._rig.relay.cut))
        await asyncio.sleep(seconds)
        await self._rig.on(_call(self._rig.relay.restore))

    async def hold(self, seconds: float) -> None:
        await self._rig.on(_call(self._rig.relay.stall))
        await asyncio.sleep(seconds)
        await self._rig.on(_call(self._rig.relay.restore))

    async def cut_agents(self, seconds: float) -> None:
        self._relay.cut()
        await asyncio.sleep(seconds)
        self._relay.restore()

    async def freeze(self, seconds: float) -> None:
        if (host := await self._host()) is None:
            return
        with suppress(ProcessLookupError):
            os.kill(host, signal.SIGSTOP)
            await asyncio.sleep(seconds)
            os.kill(host, signal.SIGCONT)

    async def kill_host(self, seconds: float) -> None:
        """VS Code says that its extension host is gone; a person reloads the window."""
        if (host := await self._host()) is None:
            return
        with suppress(ProcessLookupError):
            os.kill(host, signal.SIGKILL)
        await asyncio.sleep(min(seconds, 3))
        await self.reload(0)

    async def reload(self, _seconds: float) -> None:
        await self._rig.on(self._window.page.reload(wait_until="commit"))

    async def restart_hub(self, _seconds: float) -> None:
        await self._rig.on(self._rig.restart_hub())

    async def crash(self, seconds: float) -> None:
        context = self._window.page.context
        await self._rig.on(self._rig.crash(self._window.page))
        await asyncio.sleep(min(seconds, 5))
        self._window.page = await self._rig.on(
            self._window.server.open_tab(context, self._window.folder)
        )

    async def _host(self) -> int | None:
        """The process of the extension host, if the window says so in time."""
        with suppress(BasculeError, ValueError):
            seen = await self._agent.run("echo $PPID", shell="host", timeout=20)
            return int(seen.content)
        return None


async def _run(rig: Rig, folder: Path, seconds: float, dice: random.Random) -> int:
    window = await rig.on(rig.open_window(folder))
    claims = Claims()
    async with TcpRelay(int(rig.url.rpartition(":")[2])) as relay:
        token, another = await rig.agent_token(), await rig.agent_token()
        async with (
            VSCodeRuntime(relay.url, token, window=window.id, patience=_TIMEOUT) as agent,
            VSCodeRuntime(rig.url, another, window=window.id, patience=20) as looking,
        ):
            end = time.monotonic() + seconds
            trouble = Trouble(rig, window, relay, looking, dice)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(trouble.make(end))
                for worker in range(_WORKERS):
                    tasks.create_task(_work(worker, agent, folder, claims, end))
    wrong = claims.check(folder)
    print("trouble:", dict(trouble.made))
    print("claims:", dict(Counter(claims.said.values())))
    print(f"load: {os.getloadavg()[0]:.0f}; false claims: {len(wrong)}")
    for sentence in wrong:
        print(" ", sentence)
    return 1 if wrong else 0


@contextmanager
def _load(count: int) -> Iterator[None]:
    """Keeps so many programs running; they end with this one."""
    program = f"import os\nwhile os.getppid() == {os.getpid()}:\n    sum(range(100000))"
    loops = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


async def _call(work: object) -> None:
    assert callable(work)
    work()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="How long, default 30")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--load", type=int, default=20, help="Busy programs beside, default 20")
    given = parser.parse_args()
    print(f"seed {given.seed}, {given.minutes:g} minutes, load {given.load}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        rig = Rig(Path(directory))
        rig.open()
        try:
            with _load(given.load):
                dice = random.Random(given.seed)
                folder = Path(directory, "workspace")
                return asyncio.run(_run(rig, folder, given.minutes * 60, dice))
        finally:
            rig.close()


if __name__ == "__main__":
    raise SystemExit(main())
