"""`git clone` into the workspace, with credentials that are used once and never stored.

The credentials are in anonymous memory files (memfd). The programs that git runs to get them (an
askpass script, ssh) read them through /proc while the clone runs. They are not in any file on disk,
argument, environment variable, or in the clone's configuration.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from bascule.core.errors import CloneFailed, InvalidRequest, MissingTool

OnProgress = Callable[[str, int], None]
"""Called with git's current step and its progress in percent."""

_SCP: Final = re.compile(r"(?:([\w.+-]+)@)?([\w.-]+|\[[0-9a-fA-F:]+\]):(?!//)(\S+)")
_PROGRESS: Final = re.compile(rb"(?:remote: )?([A-Z][A-Za-z ]+):\s+(\d+)%")
_MAX_ERROR_LINES: Final = 12
_PREAMBLE: Final = b"Cloning into "
"""First line of git's output for every clone. It explains nothing, so error messages omit it."""
_ASKPASS_SCRIPT: Final = """\
#!/bin/sh
case "$1" in
    Username*) line=1 ;;
    *) line=2 ;;
esac
exec sed -n "${line}p" "$BASCULE_GIT_CREDENTIAL"
"""
"""Script that git runs to get a user name or password (GIT_ASKPASS). The script reads them from the
memory file BASCULE_GIT_CREDENTIAL; it does not contain them."""
_SETTINGS: Final = (
    *("-c", "credential.helper="),  # no helper is asked for credentials, and none stores them
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "advice.detachedHead=false"),
    *("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """Credentials for a repository: a user name and password (or token), or a private key."""

    username: str = ""
    password: str = field(default="", repr=False)
    private_key: str = field(default="", repr=False)
    known_hosts: str = ""
    """Host keys for ssh. Without them, ssh accepts the first key that a host presents."""


@dataclass(frozen=True, slots=True)
class Repository:
    """Where to clone from; `url` contains no secret."""

    url: str
    credential: Credential


def read_repository(url: str, credential: Credential) -> Repository:
    """Parse the address of a repository. Raises `InvalidRequest` for anything but https and ssh.

    Moves a user name and password from the URL to the credential, because git would store them in
    its configuration.
    """
    if any(c.isspace() or not c.isprintable() for c in url) or url.startswith("-"):
        raise InvalidRequest(f"{url!r} is not the URL of a repository")
    if "://" not in url:
        if not _SCP.fullmatch(url):
            raise _unsupported_source(url)
        return Repository(url, credential)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidRequest(f"The address of the repository is wrong: {error}") from None
    if parts.scheme not in ("https", "ssh") or not host or host.startswith("-"):
        raise _unsupported_source(f"{parts.scheme}://{host or ''}")
    if parts.scheme == "ssh":
        if parts.password is not None:
            raise InvalidRequest("ssh needs a private key, not a password in the URL")
        return Repository(url, credential)
    if parts.username is not None and not credential.password:
        # In https://TOKEN@host, the token is the user name and there is no password.
        username, password = unquote(parts.username), unquote(parts.password or "")
        credential = Credential(username=username, password=password)
    url_host = f"[{host}]" if ":" in host else host
    without_secret = parts._replace(netloc=url_host if port is None else f"{url_host}:{port}")
    return Repository(without_secret.geturl(), credential)


async def clone(
    repository: Repository,
    ref: str,
    directory: Path,
    *,
    environment: Mapping[str, str],
    on_progress: OnProgress,
) -> str:
    """Clone into an empty directory and check out `ref`; return the commit, or "" if there is none.

    Raises `CloneFailed` with git's last output, without the secrets. Cancelling kills git.
    """
    git = shutil.which("git", path=environment.get("PATH"))
    if git is None:
        raise MissingTool("Cloning a repository needs git, which is not installed here")
    with ExitStack() as held:
        env = await asyncio.to_thread(
            lambda: held.enter_context(_git_environment(repository.credential, environment))
        )
        run = _Git(git, directory, env, repository.credential, on_progress)
        checkout = ("--no-checkout",) if ref else ()
        await run("clone", "--progress", *checkout, "--", repository.url, ".")
        if ref:
            await _check_out(run, ref)
        return await run.output_of("rev-parse", "--verify", "--quiet", "HEAD")


async def _check_out(run: _Git, ref: str) -> None:
    try:
        await run("checkout", "--progress", ref, "--")
    except CloneFailed:
        # Not a branch or tag: a commit that is on no branch, or a ref such as refs/pull/1/head.
        await run("fetch", "--progress", "origin", ref)
        await run("checkout", "--progress", "FETCH_HEAD", "--")


class _Git:
    """Runs git in a directory, one command after the other."""

    def __init__(
        self,
        program: str,
        directory: Path,
        environment: Mapping[str, str],
        credential: Credential,
        on_progress: OnProgress,
    ) -> None:
        self._program = program
        self._directory = directory
        self._environment = environment
        self._secrets = [credential.password, *credential.private_key.splitlines()]
        self._on_progress = on_progress
        self._last_progress: tuple[str, int] = ("", -1)

    async def __call__(self, *arguments: str) -> None:
        last: deque[str] = deque(maxlen=_MAX_ERROR_LINES)
        status = await self._run(arguments, lambda line: self._on_line(line, last))
        if status != 0:
            message = self._masked("\n".join(last)) or f"it ended with status {status}"
            raise CloneFailed(f"git {arguments[0]}: {message}")

    async def output_of(self, *arguments: str) -> str:
        """What a git command writes to stdout; empty if the command fails."""
        lines: list[bytes] = []
        status = await self._run(arguments, lines.append, read_stdout=True)
        return b"".join(lines).decode().strip() if status == 0 else ""

    async def _run(
        self,
        arguments: Sequence[str],
        on_line: Callable[[bytes], None],
        *,
        read_stdout: bool = False,
    ) -> int:
        """Call `on_line` with each line of git's stderr, or stdout. Return git's exit status."""
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            self._program,
            *_SETTINGS,
            *arguments,
            cwd=self._directory,
            env=dict(self._environment),
            stdin=nothing,
            stdout=pipe if read_stdout else nothing,
            stderr=nothing if read_stdout else pipe,
            start_new_session=True,
        )
        try:
            output = process.stdout if read_stdout else process.stderr
            assert output is not None
            rest = b""
            while data := await output.read(65536):
                *lines, rest = re.split(rb"[\r\n]", rest + data)
                for line in lines:
                    on_line(line)
            on_line(rest)
            return await process.wait()
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()

    def _on_line(self, line: bytes, last: deque[str]) -> None:
        if found := _PROGRESS.match(line):
            now = found[1].decode().strip(), int(found[2])
            if now != self._last_progress:
                self._last_progress = now
                self._on_progress(*now)
        elif line.strip() and not line.startswith(_PREAMBLE):
            last.append(line.decode(errors="replace").rstrip())

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            if secret.strip():
                text = text.replace(secret, "***")
        return text


@contextmanager
def _git_environment(
    credential: Credential, environment: Mapping[str, str]
) -> Iterator[Mapping[str, str]]:
    """Yield an environment in which git uses only `credential`, and asks no user."""
    with ExitStack() as held:
        env = {
            **environment,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": "https:ssh",
            "LC_ALL": "C.UTF-8",
            "GIT_ASKPASS": "/bin/false",
        }
        ssh = ["ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new"]
        if credential.password or credential.username:
            directory = held.enter_context(tempfile.TemporaryDirectory(prefix="bascule-git-"))
            script = Path(directory, "answer")
            script.write_text(_ASKPASS_SCRIPT)
            script.chmod(0o700)
            lines = f"{credential.username}\n{credential.password}\n"
            env["GIT_ASKPASS"] = str(script)
            env["BASCULE_GIT_CREDENTIAL"] = held.enter_context(_memory_file(lines))
        if credential.private_key:
            key = held.enter_context(_memory_file(f"{credential.private_key.strip()}\n"))
            ssh += ["-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", "-i", key]
        if credential.known_hosts:
            hosts = held.enter_context(_memory_file(f"{credential.known_hosts.strip()}\n"))
            ssh += ["-o", f"UserKnownHostsFile={hosts}", "-o", "StrictHostKeyChecking=yes"]
        env["GIT_SSH_COMMAND"] = shlex.join(ssh)
        yield env


@contextmanager
def _memory_file(text: str) -> Iterator[str]:
    """Yield the path of an anonymous memory file, which only our user can read."""
    descriptor = os.memfd_create("bascule", os.MFD_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, text.encode())
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _unsupported_source(what: str) -> InvalidRequest:
    return InvalidRequest(f"Repositories are cloned over https or ssh, not from {what!r}")
