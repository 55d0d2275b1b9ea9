"""A session of a hub: as OpenHands' own `Workspace`, unmodified, and as the place of an agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from openhands.sdk import Workspace
from openhands.sdk.workspace import AsyncRemoteWorkspace, RemoteWorkspace

from bascule.adapters.openhands_v1 import use_bascule
from bascule.adapters.openhands_workspace import WorkspaceMount
from bascule.cli.loop import LoopThread
from bascule.core.errors import InvalidSetting
from tests.hub.sessions.serving import SessionHub, SessionsClient, open_session_hub

from .talk import call, conversation, converse, text_of

SECRET = "s3cr3t-value"


@dataclass(frozen=True)
class Held:
    """A session of a hub that runs in another thread, and a token of the session."""

    hub: SessionHub
    session: str
    token: str

    @property
    def host(self) -> str:
        return f"{self.hub.url}/openhands/v1/{self.session}"

    @property
    def folder(self) -> Path:
        return self.hub.directory / "sessions" / self.session / "workspace"

    def workspace(self, *, token: str = "") -> RemoteWorkspace:
        made = Workspace(host=self.host, api_key=token or self.token, working_dir=str(self.folder))
        assert isinstance(made, RemoteWorkspace)
        return made


@asynccontextmanager
async def session() -> AsyncIterator[Held]:
    async with open_session_hub(mounts=(WorkspaceMount,)) as hub, SessionsClient(hub.url) as admin:
        made = await admin.ready({"name": "first", "secrets": {"API_KEY": SECRET}})
        yield Held(hub, made, await hub.token("of it", "session", session_id=made))


@pytest.fixture(scope="module")
def held() -> Iterator[Held]:
    with LoopThread() as loop, loop.hold(session()) as made:
        yield made


@pytest.fixture
def workspace(held: Held) -> RemoteWorkspace:
    return held.workspace()


def test_the_server_is_alive_and_describes_itself(workspace: RemoteWorkspace) -> None:
    assert workspace.alive
    assert workspace.get_server_info()["version"] == "1.58.0"


def test_commands_run_in_the_workspace_with_separate_stdout_and_stderr_and_no_terminal(
    workspace: RemoteWorkspace, held: Held
) -> None:
    (held.folder / "a").touch()
    (held.folder / "b").touch()
    seen = workspace.execute_command("pwd; ls; echo oops >&2; test -t 1; (exit 3)")
    there = workspace.execute_command("pwd", cwd="/")

    assert (seen.stdout, seen.stderr) == (f"{held.folder}\na\nb\n", "oops\n")
    assert (seen.exit_code, seen.timeout_occurred) == (3, False)
    assert there.stdout == "/\n"


def test_commands_share_no_state_and_leave_background_processes_running(
    workspace: RemoteWorkspace,
) -> None:
    first = workspace.execute_command("export COLOUR=blue; cd /; sleep 600 & echo $!; exit 4")
    second = workspace.execute_command(
        f"echo [$COLOUR]; kill -0 {first.stdout.strip()} && echo alive; kill {first.stdout.strip()}"
    )

    assert first.exit_code == 4
    assert second.stdout == "[]\nalive\n"


def test_a_command_past_its_timeout_is_ended_and_its_output_kept(
    workspace: RemoteWorkspace, held: Held
) -> None:
    late = workspace.execute_command("sleep 600", timeout=1)
    asked = httpx.post(
        f"{held.host}/api/bash/execute_bash_command",
        json={"command": "echo begun; sleep 600", "timeout": 1},
        headers={"X-Session-API-Key": held.token},
        timeout=60,
    ).json()

    assert (late.exit_code, late.timeout_occurred) == (-1, True)
    assert (asked["stdout"], asked["exit_code"]) == ("begun\n", -1)
    assert workspace.execute_command("echo usable").stdout == "usable\n"


def test_a_command_is_started_followed_and_stopped(workspace: RemoteWorkspace) -> None:
    running = workspace.start_command("sleep 600", timeout=600)
    assert workspace.get_command_output(running) is None
    other = workspace.execute_command("echo meanwhile")
    workspace.stop_command(running)
    workspace.stop_command("00000000-0000-0000-0000-000000000000")

    assert other.stdout == "meanwhile\n"
    ended = workspace.execute_command("true") and workspace.get_command_output(running)
    assert ended is not None
    assert ended["exit_code"] == 137


def test_ten_megabytes_of_output_arrive_complete(workspace: RemoteWorkspace) -> None:
    seen = workspace.execute_command("head -c 10000000 /dev/zero | tr '\\0' x; echo; echo end")

    assert seen.stdout == "x" * 10_000_000 + "\nend\n"


def test_a_bash_syntax_error_is_returned_as_output(workspace: RemoteWorkspace) -> None:
    seen = workspace.execute_command("echo 'oops")

    assert seen.exit_code != 0
    assert "unexpected EOF" in seen.stderr


def test_secrets_reach_commands_but_no_response_contains_them(
    workspace: RemoteWorkspace, held: Held
) -> None:
    seen = workspace.execute_command("echo $API_KEY | tee kept; echo ${#API_KEY}")

    assert (held.folder / "kept").read_text() == f"{SECRET}\n"
    assert seen.stdout == f"***\n{len(SECRET)}\n"


def test_uploaded_and_downloaded_files_are_unchanged(
    workspace: RemoteWorkspace, held: Held, tmp_path: Path
) -> None:
    content = bytes(range(256)) * 1000
    source, back = tmp_path / "source", tmp_path / "back" / "file"
    source.write_bytes(content)

    went = workspace.file_upload(source, held.folder / "deep" / "file.bin")
    came = workspace.file_download(held.folder / "deep" / "file.bin", back)
    missing = workspace.file_download(held.folder / "nowhere", back)
    directory = workspace.file_download(held.folder / "deep", back)
    relative = workspace.file_upload(source, "file.bin")

    assert (went.success, went.file_size, went.error) == (True, len(content), None)
    assert (held.folder / "deep" / "file.bin").read_bytes() == content
    assert came.success
    assert back.read_bytes() == content
    assert [each.success for each in (missing, directory, relative)] == [False] * 3


def test_git_changes_of_repositories_are_listed(workspace: RemoteWorkspace, tmp_path: Path) -> None:
    git = "git -c user.name=n -c user.email=e@example.com"
    workspace.execute_command(
        f"mkdir repo && cd repo && git init -qb main && printf 'one\\n' > kept && touch gone moved"
        f" && git add . && {git} commit -qm first && printf 'two\\n' >> kept && rm gone"
        f" && git mv moved 'with space' && touch new"
        f" && git init -qb main inner && touch inner/own"
    )

    changes = {str(each.path): each.status.value for each in workspace.git_changes("repo")}
    above = {str(each.path) for each in workspace.git_changes(".")}
    diff = workspace.git_diff("repo/kept")
    deleted = workspace.git_diff("repo/gone")

    assert changes == {
        "kept": "UPDATED",
        "gone": "DELETED",
        "moved": "DELETED",
        "with space": "ADDED",
        "new": "ADDED",
        "inner/own": "ADDED",
    }
    assert {"repo/kept", "repo/new"} <= above
    assert (diff.original, diff.modified) == ("one", "one\ntwo")
    assert (deleted.original, deleted.modified) == ("", "")
    assert workspace.git_changes(tmp_path) == []
    with pytest.raises(httpx.HTTPStatusError, match="400"):
        workspace.git_diff("repo/nowhere")


def test_a_local_agent_fixes_a_failing_test_in_the_remote_workspace(
    held: Held, tmp_path: Path
) -> None:
    (held.folder / "sums.py").write_text("print(2 - 2 == 4)\n")
    tools = use_bascule("session", hub=held.hub.url, token=held.hub.agent, session=held.session)

    failing, found, _, passing = converse(
        tmp_path,
        tools,
        call("terminal", command="python3 sums.py"),
        call("grep", pattern="print"),
        call(
            "file_editor", command="str_replace", path="sums.py", old_str="2 - 2", new_str="2 + 2"
        ),
        call("terminal", command="python3 sums.py; pwd"),
    )

    assert text_of(failing).startswith("False\n")
    assert text_of(found) == f"{held.folder}/sums.py:1:print(2 - 2 == 4)"
    assert text_of(passing).startswith(f"True\n{held.folder}\n")


def test_an_incomplete_session_setting_is_reported(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidSetting, match="BASCULE_SESSION"),
        conversation(tmp_path, use_bascule("session")) as talk,
    ):
        talk.send_message("Please.")


async def test_the_async_client_works_too(held: Held) -> None:
    workspace = AsyncRemoteWorkspace(
        host=held.host, api_key=held.token, working_dir=str(held.folder)
    )
    seen = await asyncio.gather(*(workspace.execute_command(f"echo {n}") for n in range(3)))

    assert [each.stdout for each in seen] == ["0\n", "1\n", "2\n"]


@pytest.mark.parametrize(("token", "status"), [("", 401), ("wrong", 401), ("window", 404)])
def test_who_may_not_is_told(held: Held, token: str, status: int) -> None:
    keys = {"window": held.hub.window, "": "", "wrong": "wrong"}
    headers = {"X-Session-API-Key": keys[token]} if token else {}
    reply = httpx.get(f"{held.host}/server_info", headers=headers)

    assert reply.status_code == status


def test_an_unknown_session_is_not_healthy(held: Held) -> None:
    unknown = f"{held.hub.url}/openhands/v1/nobody"

    assert httpx.get(f"{unknown}/health").status_code == 503
    assert not Workspace(host=unknown, api_key=held.token, working_dir="/").alive
    asked = httpx.get(f"{unknown}/server_info", headers={"X-Session-API-Key": held.token})
    assert asked.status_code == 404
