"""`scripts/packages`: uv with pip's settings of package indexes, and pip where uv fails."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts.uv_settings import read, variables

TOLD = """\
:env:.find-links='/wheels /more wheels'
global.cert='/etc/ca.crt'
global.extra-index-url='\\nfile:///one/simple\\nhttps://two.example/simple'
global.index-url='https://global.example/simple'
install.index-url='https://install.example/simple'
list.format='columns'
"""


def test_uv_gets_the_package_indexes_that_pip_is_configured_with() -> None:
    assert dict(variables(read(TOLD))) == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "https://install.example/simple",
        "UV_INDEX": "file:///one/simple https://two.example/simple",
        "UV_FIND_LINKS": "/wheels,/more,wheels",
        "SSL_CERT_FILE": "/etc/ca.crt",
    }


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the wheel of a package `tiny`, and a uv that always fails."""
    with zipfile.ZipFile(tmp_path / "tiny-1-py3-none-any.whl", "w") as wheel:
        about = "tiny-1.dist-info"
        wheel.writestr("tiny.py", "")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        wheel.writestr(
            f"{about}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{about}/RECORD", "")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "uv").write_text("#!/bin/sh\necho 'no such index' >&2\nexit 2\n")
    (programs / "uv").chmod(0o755)
    return tmp_path


def install(project: Path, place: Path, *wanted: str) -> subprocess.CompletedProcess[str]:
    """In a copy of the scripts beside which there is no .venv with a uv that works."""
    scripts = place / "scripts"
    scripts.mkdir()
    for name in ("packages", "uv_settings.py"):
        (scripts / name).symlink_to(project / "scripts" / name)
    environment = {
        **os.environ,
        "PATH": f"{place / 'bin'}:{os.environ['PATH']}",
        "PIP_INDEX_URL": "file:///nowhere/simple",
        "PIP_FIND_LINKS": str(place),
    }
    command: list[str | Path] = [
        scripts / "packages",
        sys.executable,
        "--target",
        place / "installed",
        *wanted,
    ]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_pip_installs_if_uv_fails_without_messages_about_missing_packages(
    project: Path, place: Path
) -> None:
    ran = install(project, place, "tiny")
    assert (ran.returncode, ran.stderr) == (
        0,
        "no such index\npackages: uv failed, see above; trying pip\n",
    )
    assert (place / "installed/tiny.py").exists()


@pytest.mark.slow
def test_if_pip_fails_as_well_everything_it_said_is_shown(project: Path, place: Path) -> None:
    ran = install(project, place, "no-such-package")
    assert ran.returncode == 1
    assert "'file:///nowhere/simple/no-such-package/' is ignored" in ran.stderr
    assert "No matching distribution found for no-such-package" in ran.stderr
