"""Uploads to protected files need approval, whichever way they take into the sandbox."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bascule.core.errors import ConsentDenied
from bascule.link.http import target
from bascule.runtime.local import LocalRuntime
from bascule.sandbox.command_questions import ApprovalAnswer, CommandQuestion
from bascule.sandbox.command_rules import CommandRules
from bascule.sandbox.executor import Sandbox
from bascule.sandbox.server.server import SandboxServer
from bascule.sandbox.settings import SandboxSettings, ServerSettings
from bascule.sandbox.shell.settings import ShellSettings
from bascule.wire import from_json
from tests.sandbox.serving import KEY, Client

HOOKS = ".git/hooks"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    (tmp_path / "workspace").mkdir()
    shells = ShellSettings(working_dir=tmp_path / "workspace")
    settings = SandboxSettings(shells=shells, rules=CommandRules())
    async with (
        SandboxServer(ServerSettings(key=KEY), settings) as server,
        Client(server.url) as client,
    ):
        yield client


def zipped(*names: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return held.getvalue()


async def upload(client: Client, destination: Path, name: str, body: bytes = b"x") -> str:
    """The code of the error, or an empty text."""
    recursive = "true" if name.endswith(".zip") else "false"
    where = target("/upload_file", destination=str(destination), filename=name, recursive=recursive)
    headers = {"Content-Type": "application/octet-stream"}
    reply = await client.request("POST", where, body=body, headers=headers)
    return "" if reply.status == 200 else str(from_json(reply.body)["error"]["code"])


async def test_uploads_to_protected_files_are_not_stored_unasked(
    client: Client, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    (tmp_path / "link").symlink_to(workspace)
    (workspace / "plain").mkdir()
    for destination, name in (
        (workspace / HOOKS, "pre-commit"),
        (workspace / "plain" / ".." / HOOKS, "pre-commit"),
        (tmp_path / "link" / HOOKS, "pre-commit"),
        (workspace, ".envrc"),
        (workspace / HOOKS, "a.zip"),
        (workspace, "b.zip"),
        (tmp_path / "link", "b.zip"),
    ):
        body = zipped("pre-commit") if name == "a.zip" else zipped("a", f"{HOOKS}/pre-commit")
        found = await upload(client, destination, name, body)
        assert found == "consent.denied", (destination, name)
    assert list(workspace.rglob("*")) == [workspace / "plain"]

    assert await upload(client, workspace, "note") == ""
    assert await upload(client, workspace, "c.zip", zipped("sub/a")) == ""
    assert await upload(client, tmp_path / "other" / HOOKS, "pre-commit") == ""  # no workspace
    assert (workspace / "sub/a").read_text() == "x"


async def test_a_zip_is_one_question_that_names_its_protected_files(
    tmp_path: Path,
) -> None:
    questions: list[CommandQuestion] = []

    async def agree(question: CommandQuestion) -> ApprovalAnswer:
        questions.append(question)
        return "once"

    names = [f"{HOOKS}/{number}" for number in range(100)]
    settings = SandboxSettings(shells=ShellSettings(working_dir=tmp_path), rules=CommandRules())
    async with await asyncio.to_thread(Sandbox, settings) as sandbox:
        assert sandbox.gate is not None
        sandbox.gate.ask = agree
        file = io.BytesIO(zipped("plain", *names))
        await sandbox.store_upload(file, ".", "a.zip", str(tmp_path), unpacks=True)
    assert len(list((tmp_path / HOOKS).iterdir())) == 100
    (question,) = questions
    assert question.text.split("\n") == [f"{tmp_path}/{name}" for name in names]
    assert all(question.text[part.start : part.end] == part.text for part in question.parts)
    assert question.reason.endswith("; and 50 more")


async def test_uploads_of_a_local_runtime_follow_the_same_rules(tmp_path: Path) -> None:
    workspace, hook = tmp_path / "workspace", tmp_path / "pre-commit"
    (tmp_path / "tree/.vscode").mkdir(parents=True)
    (tmp_path / "tree/.vscode/tasks.json").write_text("{}")
    hook.write_text("x")
    workspace.mkdir()
    rules = tmp_path / "rules.toml"
    rules.write_text("")
    async with LocalRuntime(workspace, rules=rules) as runtime:
        for source, destination in ((hook, HOOKS), (tmp_path / "tree", ".")):
            with pytest.raises(ConsentDenied):
                await runtime.upload(source, destination)
        assert list(workspace.iterdir()) == []
        await runtime.upload(hook, "plain")
    assert (workspace / "plain/pre-commit").exists()
