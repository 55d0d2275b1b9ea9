"""Random bytes, random splits of reads, random kills: never a wrong end, never a hang."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bascule.core.actions import CmdRun
from bascule.core.observations import CmdOutput
from bascule.sandbox.shell.settings import ShellKind, ShellSettings
from bascule.sandbox.shell.shells import Shells

EXAMPLES = int(os.environ.get("BASCULE_FUZZ_EXAMPLES", "40"))
ROUND_TIMEOUT = 60.0
relaxed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

pytestmark = pytest.mark.timeout(60 + 10 * EXAMPLES)

AS_BEFORE = "exec >/dev/tty 2>&1; set +euvxn; trap - DEBUG ERR; PROMPT_COMMAND=; disown -a"
"""Undoes what would change the output of a later command, notices of jobs included: bash may print
those in the middle of it."""

look_alikes = st.sampled_from(
    [
        b"\x1b]7771;",
        b"\x1b]7771;P\x07",
        b"\x1b",
        b"\x07",
        b"\x1f",
        b"$ ",
        b"\x1b]7771;0123456789abcdef;E;0",
    ]
)
noise = st.lists(st.one_of(st.binary(max_size=60), look_alikes), max_size=20).map(b"".join)


each_kind = pytest.mark.parametrize("kind", get_args(ShellKind))


def with_shells(tmp_path: Path, kind: ShellKind, body: Callable[[Shells], Awaitable[None]]) -> None:
    async def session() -> None:
        quick = ShellSettings(working_dir=tmp_path, soft_timeout=5, log_limit=1 << 20, kind=kind)
        async with asyncio.timeout(ROUND_TIMEOUT), Shells(quick) as shells:
            await body(shells)

    asyncio.run(session())


async def check(shells: Shells, number: int, *, is_alone: bool = True) -> None:
    """The shell answers correctly after any earlier command. If it is not alone, programs in the
    background may print something at the same time."""
    answer = await shells.run(CmdRun(f"echo right {number}; (exit {number % 200})", timeout=60))
    assert answer.exit_code == number % 200
    right = f"right {number}\n"
    assert answer.content == right if is_alone else right in answer.content


def logged(shells: Shells, answer: CmdOutput) -> bytes:
    return shells.get("").log.read(answer.metadata.log_start, answer.metadata.log_end)


@pytest.mark.slow
@each_kind
@relaxed
@given(
    outputs=st.lists(noise, min_size=1, max_size=6), reads=st.lists(st.integers(1, 40), min_size=1)
)
def test_random_output_in_reads_of_random_size_is_exact(
    tmp_path: Path, kind: ShellKind, outputs: list[bytes], reads: list[int]
) -> None:
    async def body(shells: Shells) -> None:
        for number, output in enumerate(outputs):
            file = tmp_path / f"noise{number}"
            file.write_bytes(output)
            answer = await shells.run(CmdRun(f"cat {file}; (exit {number})", output_limit=0))
            assert (logged(shells, answer), answer.exit_code) == (output, number)
            await check(shells, number)

    sizes = itertools.cycle(reads)
    with pytest.MonkeyPatch.context() as patch:
        read, splice = os.read, os.splice

        def short_splice(source: int, target: int, most: int, offset_dst: int) -> int:
            return splice(source, target, min(most, next(sizes)), offset_dst=offset_dst)

        patch.setattr(os, "read", lambda fd, most: read(fd, min(most, next(sizes))))
        patch.setattr(os, "splice", short_splice)
        with_shells(tmp_path, kind, body)


@pytest.mark.slow
@each_kind
@relaxed
@given(
    commands=st.lists(
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40), max_size=8
    )
)
def test_random_text_as_a_command_is_always_answered(
    tmp_path: Path, kind: ShellKind, commands: list[str]
) -> None:
    async def body(shells: Shells) -> None:
        for number, text in enumerate(commands):
            answer = await shells.run(CmdRun(f"cd {tmp_path}; : {text}", timeout=2))
            if answer.metadata.state == "running":  # such as `cat` reading the terminal
                await shells.get("").interrupt(kill=True)
                while shells.get("").is_running:
                    await shells.run(CmdRun("", timeout=5))
            await shells.run(CmdRun(AS_BEFORE))
            is_alone = not any("&" in each for each in commands[: number + 1])
            await check(shells, number, is_alone=is_alone)

    with_shells(tmp_path, kind, body)


moves = st.sampled_from(["interrupt", "kill", "kill -9 shell", "cancel", "exit", "type", "wait"])


@pytest.mark.slow
@each_kind
@relaxed
@given(plan=st.lists(st.tuples(moves, st.floats(0, 0.02)), min_size=1, max_size=10))
def test_after_random_kills_a_shell_answers_correctly(
    tmp_path: Path, kind: ShellKind, plan: list[tuple[str, float]]
) -> None:
    async def body(shells: Shells) -> None:
        for number, (move, delay) in enumerate(plan):
            word = f"whole{number}"
            command = f"read -t 0.{number % 3 + 1} x; echo {word}; seq 1 3000 && exec 3<&0"
            task = asyncio.create_task(shells.run(CmdRun(command, output_limit=0, timeout=10)))
            await asyncio.sleep(delay)
            await disturb(shells, move, task)
            answer = (await asyncio.gather(task, return_exceptions=True))[0]
            if isinstance(answer, CmdOutput) and answer.exit_code == 0 and word in answer.content:
                expected = f"{word}\n" + "".join(f"{n}\n" for n in range(1, 3001))
                assert answer.content.replace("exit\n", "") == expected
            await check(shells, number)

    with_shells(tmp_path, kind, body)


async def disturb(shells: Shells, move: str, task: asyncio.Task[CmdOutput]) -> None:
    shell = shells.open("main")
    match move:
        case "interrupt" | "kill":
            await shell.interrupt(kill=move == "kill")
        case "kill -9 shell":
            ours = f"pkill -9 -x bash -P $(pgrep -d, -P {os.getpid()})"
            await shells.run(CmdRun(ours, is_static=True, timeout=5))
        case "cancel":
            task.cancel()
        case "type":
            await shell.run(CmdRun("typed text", is_input=True, timeout=5))
        case _:
            pass
