"""The README's blocks do what it says when they are pasted."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fresh.readme import ADDRESS, first_commands

pytestmark = pytest.mark.slow


@pytest.fixture
def blocks(project: Path) -> list[str]:
    """In order: the start, bash, Python, cells and pages, HTTP."""
    text = (project / "README.md").read_text()
    return re.findall(r"^```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def clone(project: Path) -> Iterator[Path]:
    """Where a visitor pastes; a workspace that was not there before is taken away again."""
    workspace = project / "workspace"
    was_there = workspace.exists()
    yield project
    if not was_there:
        shutil.rmtree(workspace, ignore_errors=True)


def paste(text: str, directory: Path) -> str:
    """What is printed when the block is pasted into bash there."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=directory,
        env=clean,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_readme_starts_with_three_commands(blocks: list[str], project: Path) -> None:
    """What they lead to is seen by `make test-fresh`, on a machine that has nothing yet."""
    commands = first_commands((project / "README.md").read_text())

    assert commands == blocks[0].splitlines()
    assert commands == [f"git clone {ADDRESS} bascule", "cd bascule", "make run"]


def test_the_readme_says_how_to_run_and_test_and_how_long_it_takes(project: Path) -> None:
    start = (project / "README.md").read_text().partition("## Start\n")[2].partition("\n## ")[0]
    times = dict(re.findall(r"^\| `(make \w+)` \|[^|]+\| ([^|]+) \|$", start, re.MULTILINE))

    assert times.keys() == {"make run", "make test"}
    assert all("minutes" in each for each in times.values())


def test_the_bash_block_runs(blocks: list[str], clone: Path) -> None:
    assert paste(blocks[1], clone).endswith(
        "still blue, still in /tmp\nline 1\nline 2\nline 3\nand it said 3\n"
    )


def test_the_python_block_runs(blocks: list[str], tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", blocks[2]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert ran.stdout == "still blue\n3\n"


@pytest.mark.browser
def test_the_block_with_cells_and_pages_runs(blocks: list[str], tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", blocks[3]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )

    assert ran.stdout == "2432902008176640000\nTrue\nTrue\n"


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_http_block_runs(blocks: list[str], clone: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    answer = paste(blocks[4].replace("8123", port), clone)

    assert json.loads(answer)["content"] == "hello from /tmp\n"
