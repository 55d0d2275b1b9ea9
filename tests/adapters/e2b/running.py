"""Runs programs that use the unmodified clients of E2B, against a hub of the test."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
from pathlib import Path

import pytest

from tests.hub.sessions.serving import SessionHub

_HERE = Path(__file__).parent
_SCRIPT = _HERE.parents[2] / "scripts" / "e2b-clients"


@functools.cache
def clients_directory() -> Path:
    """The directory with the clients. Skips the test if they are not installed."""
    found = subprocess.run([_SCRIPT, "--where"], capture_output=True, text=True)
    if found.returncode != 0:
        pytest.skip("the clients of E2B are not installed; scripts/e2b-clients installs them")
    return Path(found.stdout.strip())


async def run_client(hub: SessionHub, program: str, *arguments: str, **variables: str) -> str:
    """Run `clients/{program}` with a token of the hub. Returns its output; fails if it fails."""
    home, path = clients_directory(), _HERE / "clients" / program
    base = f"{hub.url}/e2b"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "E2B_API_KEY": hub.agent,
        "E2B_API_URL": base,
        "E2B_SANDBOX_URL": base,
        **variables,
    }
    interpreter = [str(home / "python/bin/python"), "-B"]
    if path.suffix == ".mjs":
        interpreter = ["node"]
        env["E2B_MODULES"] = str(home / "node_modules")
    process = await asyncio.create_subprocess_exec(
        *(*interpreter, str(path), *arguments),
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        printed, _ = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    text = printed.decode(errors="replace")
    assert process.returncode == 0, text
    return text
