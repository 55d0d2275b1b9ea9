"""What is in the repository is the same for everyone: no path, address or secret of one machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

MACHINE_PATH = re.compile(r"(?<![\w./~-])/(root|work|Users/\w+)/")
PACKAGE_HOST = re.compile(
    r"https?://[\w.-]*(artifactory|nexus|mirror|pythonhosted|npmjs|pypi\.org/simple)"
)
SECRET = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bgh[pousr]_\w{30,}|\bsk-[\w-]{20,}")


@pytest.fixture(scope="module")
def texts(project: Path) -> dict[str, str]:
    """Every tracked text file but this one."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=project, capture_output=True, text=True, check=True
    )
    found = {}
    for name in filter(None, listed.stdout.split("\0")):
        file = project / name
        if file.is_file() and file != Path(__file__):
            content = file.read_bytes()
            if b"\0" not in content[:4096]:
                found[name] = content.decode()
    return found


@pytest.mark.parametrize("pattern", [MACHINE_PATH, PACKAGE_HOST, SECRET])
def test_no_tracked_file_contains_machine_specific_text(
    texts: dict[str, str], pattern: re.Pattern[str]
) -> None:
    assert _lines_with(pattern, texts) == []


def test_no_tracked_file_contains_the_path_of_this_checkout(
    texts: dict[str, str], project: Path
) -> None:
    assert _lines_with(re.compile(re.escape(f"{project}/")), texts) == []


def test_no_lock_file_contains_urls(texts: dict[str, str]) -> None:
    assert [name for name in texts if Path(name).name in ("uv.lock", "poetry.lock")] == []


def test_every_file_ends_with_one_newline(texts: dict[str, str]) -> None:
    ends = {name: text[-2:] for name, text in texts.items() if text}

    assert [name for name, end in ends.items() if not end.endswith("\n") or end == "\n\n"] == []


def _lines_with(pattern: re.Pattern[str], texts: dict[str, str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
