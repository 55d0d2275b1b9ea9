"""Many short commands in a row on a machine that has other things to do: not one wrong answer.

The benchmark does the same twenty thousand times; here it is two thousand, for every change.
"""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from bascule.core.observations import CmdOutput
from bascule.runtime import LocalRuntime

COMMANDS = int(os.environ.get("BASCULE_ENDURANCE_COMMANDS", "2000"))


def spin() -> None:
    while True:
        pass


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Every core has a process that never rests."""
    context = multiprocessing.get_context("spawn")
    spinners = [context.Process(target=spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for spinner in spinners:
        spinner.start()
    yield
    for spinner in spinners:
        spinner.kill()
        spinner.join()
        spinner.close()


def short_commands(tmp_path: Path, seed: int) -> Iterator[tuple[str, str, int]]:
    """A command, what it prints, and its status."""
    choose = random.Random(seed)
    for number in range(COMMANDS):
        token = f"{choose.getrandbits(64):016x}"
        status = choose.randrange(256)
        yield choose.choice(
            [
                (f"echo {token}", f"{token}\n", 0),
                (f"printf {token}; (exit {status})", token, status),
                (f"cd {tmp_path} && echo $PWD {number}", f"{tmp_path} {number}\n", 0),
                (f"x={token}\necho $x |\n  cat\n(exit {status})", f"{token}\n", status),
                (f"cat <<END\n{token}\nEND", f"{token}\n", 0),
                ("true", "", 0),
            ]
        )


@pytest.mark.slow
@pytest.mark.usefixtures("busy_machine")
@pytest.mark.parametrize("process", [False, True], ids=["in process", "over HTTP"])
async def test_thousands_of_short_commands_are_answered_correctly(
    tmp_path: Path, process: bool
) -> None:
    async with LocalRuntime(tmp_path, process=process) as runtime:
        for command, printed, status in short_commands(tmp_path, seed=COMMANDS):
            answer = await runtime.run(command)
            assert isinstance(answer, CmdOutput)
            assert (answer.content, answer.exit_code) == (printed, status), command
