"""Transfers the commits of a fork as a branch: a git bundle from one session to the other.

Git runs only inside the two sessions, with the permissions of each. So the git configuration of the
fork cannot run programs in the target session.
"""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bascule.core.errors import ExecutionError, UsageError

from .hub_target import HubTarget
from .session_calls import call_hub
from .session_choice import choose_session

if TYPE_CHECKING:
    from bascule.link.sessions import SessionCalls
    from bascule.runtime import CloudRuntime

_SHELL: Final = "merge-branch"
_FETCH: Final = (
    "git -c core.hooksPath=/dev/null fetch --quiet --no-tags --no-write-fetch-head --no-auto-gc "
    "--no-recurse-submodules"
)


def transfer_branch(
    hub_target: HubTarget, which: str, branch: str, *, repository: str, into: str
) -> int:
    """Create `branch` with the fork's commits in the session that was forked, or in `into`."""

    async def find_sessions(calls: SessionCalls) -> tuple[str, str, str]:
        found = await calls.sessions()
        fork = choose_session(found, which)
        source = fork.metadata["workspace"].get("fork_of", "")
        if not source:
            raise UsageError(f"{which} is not a fork, so there is no session to merge it into")
        target = choose_session(found, into).id if into else source
        forks = (await calls.forks(source))["forks"]
        heads = next(each["heads"] for each in forks if each["id"] == fork.id)
        if repository.strip("/") not in heads:
            known = ", ".join(each or "the workspace" for each in heads) or "none"
            raise UsageError(
                f"--repository {repository or 'the workspace'}: the fork copied no repository "
                f"there; it has: {known}"
            )
        return fork.id, target, heads[repository.strip("/")]

    fork, target, base = call_hub(hub_target, find_sessions)
    count = asyncio.run(_transfer(hub_target, fork, target, base, branch, repository))
    click.echo(f"branch {branch}: {count} {'commit' if count == 1 else 'commits'}")
    return 0


async def _transfer(
    hub_target: HubTarget, fork: str, target: str, base: str, branch: str, repository: str
) -> int:
    from bascule.runtime import CloudRuntime

    change_directory = f"cd {shlex.quote('./' + repository.strip('/'))}"
    since = f"--not {base}" if base else ""
    name = shlex.quote(f"refs/heads/{branch}")
    async with (
        CloudRuntime(
            hub_target.url, hub_target.token, session_id=fork, default_timeout=None
        ) as fork_runtime,
        CloudRuntime(
            hub_target.url, hub_target.token, session_id=target, default_timeout=None
        ) as target_runtime,
    ):
        await _run(
            target_runtime,
            f"{change_directory} && git check-ref-format {name}",
            f"{branch!r} is not a branch name",
        )
        await _run(
            target_runtime,
            f"{change_directory} && ! git show-ref --verify --quiet {name}",
            f"the branch {branch} exists already, or there is no repository",
        )
        found = await _run(
            fork_runtime, f"{change_directory} && git rev-list --count HEAD {since}", "git failed"
        )
        if not found.strip().isdecimal():
            raise ExecutionError(
                f"git failed in the fork: {found.strip()!r} is not a number of commits"
            )
        count = int(found)
        if not count:
            raise UsageError("the fork has no commits of its own")
        bundle = (await _run(fork_runtime, "mktemp -u --suffix=.bundle", "mktemp failed")).strip()
        await _run(
            fork_runtime,
            f"{change_directory} && git bundle create --quiet {bundle} HEAD {since}",
            "git bundle failed",
        )
        directory_in_target = (await _run(target_runtime, "mktemp -d", "mktemp failed")).strip()
        with tempfile.TemporaryDirectory() as directory:
            downloaded = await fork_runtime.download(bundle, Path(directory))
            await target_runtime.upload(downloaded, directory_in_target)
            file = shlex.quote(f"{directory_in_target}/{downloaded.name}")
            await _run(
                target_runtime,
                f"{change_directory} && {_FETCH} {file} HEAD:{name}",
                "git fetch failed",
            )
        await _run(fork_runtime, f"rm -f {bundle}", "rm failed")
        await _run(target_runtime, f"rm -rf {directory_in_target}", "rm failed")
    return count


async def _run(runtime: CloudRuntime, command: str, failure: str) -> str:
    # In a subshell: the named shell keeps its directory for the next command.
    seen = await runtime.run(f"({command})", shell=_SHELL, blocking=True)
    if seen.exit_code:
        raise ExecutionError(f"{failure}: {seen.content.strip() or f'exit code {seen.exit_code}'}")
    return seen.content
