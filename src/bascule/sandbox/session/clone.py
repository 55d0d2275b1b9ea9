"""`git clone` into the workspace, with credentials that are used once and never stored.

They are held in memory that has no name. Programs that git asks for them (a script, ssh) read them
there by way of /proc, for as long as the clone runs; they are in no file, no argument, no
environment, and not in the clone's configuration.
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
"""What git does just now, and how much of it is done, in percent."""

_SCP: Final = re.compile(r"(?:([\w.+-]+)@)?([\w.-]+|\[[0-9a-fA-F:]+\]):(?!//)(\S+)")
_PROGRESS: Final = re.compile(rb"(?:remote: )?([A-Z][A-Za-z ]+):\s+(\d+)%")
_LAST_WORDS: Final = 12
_PREAMBLE: Final = b"Cloning into "
"""What git says first of every clone: no cause, and all there is room for where one line is."""
_ANSWER: Final = """\
#!/bin/sh
case "$1" in
    Username*) line=1 ;;
    *) line=2 ;;
esac
exec sed -n "${line}p" "$BASCULE_GIT_CREDENTIAL"
"""
"""What git runs to ask for a name or a password; it holds neither."""
_SETTINGS: Final = (
    *("-c", "credential.helper="),  # nobody else is asked, and nobody told to remember
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
    """Keys of hosts, for ssh. Without, the first one that a host shows is believed."""


@dataclass(frozen=True, slots=True)
class Repository:
    """Where to clone from; `url` has no secret in it."""

    url: str
    credential: Credential


def read_repository(url: str, credential: Credential) -> Repository:
    """Raises `InvalidRequest` for anything but https and ssh.

    A name and password in the address, which git would write down, are taken out of it.
    """
    if any(c.isspace() or not c.isprintable() for c in url) or url.startswith("-"):
        raise InvalidRequest(f"{url!r} is no address of a repository")
    if "://" not in url:
        if not _SCP.fullmatch(url):
            raise _not_taken(url)
        return Repository(url, credential)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidRequest(f"The address of the repository is wrong: {error}") from None
    if parts.scheme not in ("https", "ssh") or not host or host.startswith("-"):
        raise _not_taken(f"{parts.scheme}://{host or ''}")
    if parts.scheme == "ssh":
        if parts.password is not None:
            raise InvalidRequest("ssh takes a private key, no password in the address")
        return Repository(url, credential)
    if parts.username is not None and not credential.password:
        # A token alone stands in the place of the name.
        name, word = unquote(parts.username), unquote(parts.password or "")
        credential = Credential(username=name, password=word)
    place = f"[{host}]" if ":" in host else host
    clean = parts._replace(netloc=place if port is None else f"{place}:{port}")
    return Repository(clean.geturl(), credential)


async def clone(
    repository: Repository,
    ref: str,
    directory: Path,
    *,
    environment: Mapping[str, str],
    on_progress: OnProgress,
) -> str:
    """Clone into an empty directory and check out `ref`; the commit, or "" when there is none.

    Raises `CloneFailed` with git's last words, less the secrets. Cancelling ends git.
    """
    git = shutil.which("git", path=environment.get("PATH"))
    if git is None:
        raise MissingTool("Cloning a repository needs git; there is none here")
    with ExitStack() as held:
        env = await asyncio.to_thread(
            lambda: held.enter_context(_telling(repository.credential, environment))
        )
        run = _Git(git, directory, env, repository.credential, on_progress)
        checkout = ("--no-checkout",) if ref else ()
        await run("clone", "--progress", *checkout, "--", repository.url, ".")
        if ref:
            await _check_out(run, ref)
        return await run.answer("rev-parse", "--verify", "--quiet", "HEAD")


async def _check_out(run: _Git, ref: str) -> None:
    try:
        await run("checkout", "--progress", ref, "--")
    except CloneFailed:
        # Not a branch or tag: a commit no branch has, or a name such as refs/pull/1/head.
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
        self._told: tuple[str, int] = ("", -1)

    async def __call__(self, *words: str) -> None:
        last: deque[str] = deque(maxlen=_LAST_WORDS)
        status = await self._run(words, lambda line: self._heard(line, last))
        if status != 0:
            said = self._masked("\n".join(last)) or f"it ended with status {status}"
            raise CloneFailed(f"git {words[0]}: {said}")

    async def answer(self, *words: str) -> str:
        """The output of a git command; empty if it fails."""
        said: list[bytes] = []
        status = await self._run(words, said.append, ask=True)
        return b"".join(said).decode().strip() if status == 0 else ""

    async def _run(
        self, words: Sequence[str], heard: Callable[[bytes], None], *, ask: bool = False
    ) -> int:
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            self._program,
            *_SETTINGS,
            *words,
            cwd=self._directory,
            env=dict(self._environment),
            stdin=nothing,
            stdout=pipe if ask else nothing,
            stderr=nothing if ask else pipe,
            start_new_session=True,
        )
        try:
            output = process.stdout if ask else process.stderr
            assert output is not None
            rest = b""
            while data := await output.read(65536):
                *lines, rest = re.split(rb"[\r\n]", rest + data)
                for line in lines:
                    heard(line)
            heard(rest)
            return await process.wait()
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()

    def _heard(self, line: bytes, last: deque[str]) -> None:
        if found := _PROGRESS.match(line):
            now = found[1].decode().strip(), int(found[2])
            if now != self._told:
                self._told = now
                self._on_progress(*now)
        elif line.strip() and not line.startswith(_PREAMBLE):
            last.append(line.decode(errors="replace").rstrip())

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            if secret.strip():
                text = text.replace(secret, "***")
        return text


@contextmanager
def _telling(credential: Credential, environment: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Git's environment, in which it asks nobody but us."""
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
            place = held.enter_context(tempfile.TemporaryDirectory(prefix="bascule-git-"))
            script = Path(place, "answer")
            script.write_text(_ANSWER)
            script.chmod(0o700)
            lines = f"{credential.username}\n{credential.password}\n"
            env["GIT_ASKPASS"] = str(script)
            env["BASCULE_GIT_CREDENTIAL"] = held.enter_context(_unnamed(lines))
        if credential.private_key:
            key = held.enter_context(_unnamed(f"{credential.private_key.strip()}\n"))
            ssh += ["-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", "-i", key]
        if credential.known_hosts:
            hosts = held.enter_context(_unnamed(f"{credential.known_hosts.strip()}\n"))
            ssh += ["-o", f"UserKnownHostsFile={hosts}", "-o", "StrictHostKeyChecking=yes"]
        env["GIT_SSH_COMMAND"] = shlex.join(ssh)
        yield env


@contextmanager
def _unnamed(text: str) -> Iterator[str]:
    """A file without a name, for our eyes and those of our children; its path while it is held."""
    descriptor = os.memfd_create("bascule", os.MFD_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, text.encode())
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _not_taken(what: str) -> InvalidRequest:
    return InvalidRequest(f"Repositories are cloned over https or ssh, not from {what!r}")
