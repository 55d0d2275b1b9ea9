"""Rules for commands give the same verdict whichever kind of runtime an action goes through."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bascule.core.actions import CmdRun
from bascule.core.errors import InvalidSetting
from bascule.core.observations import Error
from bascule.rules import Rules
from bascule.runtime import LocalRuntime, Verbs
from bascule.sandbox.command_rules import CommandRules
from bascule.sandbox.settings import SandboxSettings
from bascule.sandbox.shell.settings import ShellSettings

from .test_remote import Served
from .test_vscode import _InAWindow

RULES = CommandRules(rules=Rules.of(allow=[["echo"]], deny=[["touch"]]))

KINDS: dict[str, Callable[[SandboxSettings], Verbs]] = {
    "in this process": lambda settings: LocalRuntime(settings=settings),
    "in a child process": lambda settings: LocalRuntime(settings=settings, process=True),
    "over HTTP": Served,
    "in a window": _InAWindow,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shells", ["pty", "tmux"])
async def test_every_kind_of_runtime_applies_the_rules(
    kind: str, shells: str, tmp_path: Path
) -> None:
    settings = SandboxSettings(
        shells=ShellSettings(working_dir=tmp_path, kind=shells),  # type: ignore[arg-type]
        rules=RULES,
    )
    async with KINDS[kind](settings) as runtime:
        assert (await runtime.run("echo $((1 + 1))")).content == "2\n"
        for command, error_id in (("touch made", "rule.denied"), ("make", "consent.denied")):
            seen = await runtime.act(CmdRun(command))
            assert isinstance(seen, Error)
            assert seen.error_id == error_id
        seen = await runtime.act(CmdRun("touch made", is_static=True))
        assert isinstance(seen, Error)
    assert not (tmp_path / "made").exists()


@pytest.mark.slow
@pytest.mark.parametrize("process", [False, True])
async def test_a_local_runtime_reads_a_file_of_rules(process: bool, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[allow]]\nrun = ["echo"]\n')
    async with LocalRuntime(tmp_path, rules=file, process=process) as runtime:
        assert (await runtime.run("echo 1")).content == "1\n"
        assert isinstance(await runtime.act(CmdRun("ls")), Error)


async def test_an_invalid_rule_file_prevents_the_start(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[allow]]\nrun = ["echo"]\nno = ["echo 1"]\n')
    with pytest.raises(InvalidSetting, match=r"mine\.toml:3"):
        await LocalRuntime(tmp_path, rules=file).connect()
