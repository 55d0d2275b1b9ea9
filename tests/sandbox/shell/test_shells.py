"""Named shells: apart from each other, bounded in number, found by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bascule.core.actions import CmdRun, Interrupt
from bascule.core.contracts import OutputProgress
from bascule.core.errors import (
    InvalidSetting,
    InvalidShellName,
    NoSuchPath,
    NoSuchShell,
    NotADirectory,
    ShellClosed,
    TooManyShells,
)
from bascule.sandbox.shell.settings import ShellSettings, find_account, shell_environment
from bascule.sandbox.shell.shells import Shells


@pytest.fixture
async def shells(tmp_path: Path) -> AsyncIterator[Shells]:
    async with Shells(ShellSettings(working_dir=tmp_path, max_shells=3, soft_timeout=5)) as shells:
        yield shells


async def test_shells_with_different_names_share_no_state(shells: Shells) -> None:
    await shells.run(CmdRun("x=main"))
    await shells.run(CmdRun("x=other; cd /", shell="other"))
    assert (await shells.run(CmdRun("echo $x"))).content == "main\n"
    assert (await shells.run(CmdRun("echo $x $PWD", shell="other"))).content == "other /\n"
    assert shells.names() == ["main", "other"]


async def test_relative_paths_follow_the_default_shell(shells: Shells, tmp_path: Path) -> None:
    assert shells.cwd == str(tmp_path)
    await shells.run(CmdRun("cd /usr"))
    await shells.run(CmdRun("cd /", shell="other"))
    assert shells.cwd == "/usr"


async def test_shells_work_at_the_same_time(shells: Shells, tmp_path: Path) -> None:
    wait = CmdRun(f"until [ -e {tmp_path}/go ]; do sleep 0.01; done; echo went")
    waiting = asyncio.create_task(shells.run(wait))
    await shells.run(CmdRun(f"touch {tmp_path}/go", shell="other"))
    assert (await waiting).content == "went\n"


@pytest.mark.parametrize("name", ["../x", "a b", "-x", "x" * 65, "a/b", "ä"])
async def test_invalid_shell_names_are_rejected(shells: Shells, name: str) -> None:
    with pytest.raises(InvalidShellName, match="letters, digits"):
        await shells.run(CmdRun("true", shell=name))


async def test_a_shell_that_exited_makes_room_for_another(shells: Shells) -> None:
    for name in ("a", "b", "c"):
        await shells.run(CmdRun("true", shell=name))
    await shells.run(CmdRun("exit", shell="b"))

    assert (await shells.run(CmdRun("echo here", shell="d"))).content == "here\n"
    assert shells.names() == ["a", "c", "d"]


async def test_the_error_for_too_many_shells_names_the_limit(shells: Shells) -> None:
    for name in ("a", "b", "c"):
        await shells.run(CmdRun("true", shell=name))
    with pytest.raises(TooManyShells, match="max_shells"):
        await shells.run(CmdRun("true", shell="d"))
    await shells.close_shell("b")
    assert (await shells.run(CmdRun("true", shell="d"))).exit_code == 0


async def test_an_unknown_shell_is_not_found(shells: Shells) -> None:
    with pytest.raises(NoSuchShell, match="'nobody'"):
        shells.get("nobody")


async def test_a_static_command_shares_no_state_with_shells(shells: Shells, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    await shells.run(CmdRun("x=1"))
    answer = await shells.run(CmdRun("echo $x. $PWD; cd /", is_static=True, cwd="sub"))
    assert answer.content == f". {tmp_path}/sub\n"
    assert (shells.names(), shells.cwd) == (["main"], str(tmp_path))


async def test_a_static_command_needs_a_directory(shells: Shells, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NoSuchPath, match="missing"):
        await shells.run(CmdRun("true", is_static=True, cwd="missing"))
    with pytest.raises(NotADirectory, match="file"):
        await shells.run(CmdRun("true", is_static=True, cwd="file"))


async def test_a_shell_can_be_interrupted_by_name(shells: Shells) -> None:
    running = asyncio.create_task(shells.run(CmdRun("sleep 60", shell="busy")))
    while "busy" not in shells.names() or not shells.get("busy").is_running:
        await asyncio.sleep(0)
    assert (await shells.interrupt(Interrupt("busy"))).was_running
    assert (await running).exit_code == 130
    assert not (await shells.interrupt(Interrupt("busy"))).was_running


async def test_one_listener_gets_output_of_all_shells(shells: Shells) -> None:
    heard: list[OutputProgress] = []
    stop = shells.subscribe(heard.append)
    await shells.run(CmdRun("printf a"))
    await shells.run(CmdRun("printf b", shell="other"))
    stop()
    await shells.run(CmdRun("printf c"))
    assert [(piece.shell, piece.data) for piece in heard] == [("main", b"a"), ("other", b"b")]


async def test_a_closed_sandbox_rejects_commands(shells: Shells) -> None:
    directory = shells.log_dir
    await shells.run(CmdRun("true"))
    await shells.aclose()
    with pytest.raises(ShellClosed):
        await shells.run(CmdRun("true"))
    assert not directory.exists()


async def test_logs_are_kept_in_the_configured_directory(tmp_path: Path) -> None:
    settings = ShellSettings(working_dir=tmp_path, log_dir=tmp_path / "logs")
    async with Shells(settings) as shells:
        await shells.run(CmdRun("echo kept"))
    assert (tmp_path / "logs" / "main.log").read_bytes() == b"kept\n"


async def test_the_users_rc_file_is_read_only_on_request(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text(
        "echo noise; PS1='$ '; alias hi='echo hello'; read x; set -o vi\n"
    )
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    async with Shells(ShellSettings(working_dir=tmp_path, env=env)) as shells:
        assert (await shells.run(CmdRun("hi"))).exit_code == 127
    settings = ShellSettings(working_dir=tmp_path, env=env, load_rc=True, soft_timeout=1)
    async with Shells(settings) as shells:
        running = await shells.run(CmdRun("hi"))
        if running.metadata.state == "running":
            running = await shells.run(CmdRun("\n", is_input=True))
        assert running.content == "hello\n"


def test_shells_do_not_inherit_secrets_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSION_API_KEY", "secret")
    monkeypatch.setenv("PROMPT_COMMAND", "evil")
    monkeypatch.setenv("PAGER", "less")
    env = shell_environment(ShellSettings())
    assert "secret" not in env.values()
    assert "PROMPT_COMMAND" not in env
    assert env["PAGER"] == "cat"


def test_an_account_that_does_not_exist_is_named() -> None:
    with pytest.raises(InvalidSetting, match="nobody-here"):
        find_account("nobody-here", None)
