"""An environment with Bascule and none of its extras: what works there, and what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from bascule.core.extras import EXTRAS

pytestmark = pytest.mark.slow
MAX_PACKAGES = 8
"""Bascule's own included."""


@pytest.fixture(scope="module")
def base(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of that environment."""
    place = tmp_path_factory.mktemp("base") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    install = [project / "scripts/packages", place / "bin/python"]
    subprocess.run([*install, "--constraint", project / "constraints.txt", project], check=True)
    return place / "bin"


def python(base: Path, code: str) -> str:
    ran = subprocess.run([base / "python", "-c", code], capture_output=True, text=True, check=True)
    return ran.stdout


def bascule(base: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [base / "bascule", *arguments]
    environment = {**os.environ, "SESSION_API_KEY": "a key of this test", **more}
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment
    )


@pytest.mark.network
def test_the_base_install_has_few_packages(base: Path) -> None:
    code = "from importlib.metadata import distributions as d; print(*(each.name for each in d()))"
    names = python(base, code).split()
    assert "bascule" in names
    assert len(names) <= MAX_PACKAGES, names


@pytest.mark.network
def test_the_base_install_runs_commands_and_edits_files(base: Path, tmp_path: Path) -> None:
    code = f"""
import asyncio
from bascule.runtime import LocalRuntime

async def main():
    async with LocalRuntime({str(tmp_path)!r}) as runtime:
        await runtime.write("note.txt", "base\\n")
        print((await runtime.run("cat note.txt")).content, end="")

asyncio.run(main())
"""
    assert python(base, code) == "base\n"


@pytest.mark.network
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--help"], "Run an agent's actions"),
        (["sandbox", "--help"], "Run a sandbox as an HTTP server"),
        (["serve", "--help"], "Run the hub"),
        (["exec", "echo in base"], "in base\n"),
        (["schema"], "Bascule events"),
        (["doctor", "--json"], '"findings"'),
        (["completion", "bash"], "complete -F _bascule bascule"),
    ],
)
def test_commands_without_an_extra_work_in_the_base_install(
    base: Path, arguments: list[str], said: str
) -> None:
    ran = bascule(base, *arguments)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert said in ran.stdout


@pytest.mark.network
@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["sandbox", "0", "--working-dir", "/tmp"], "sandbox"),
        (["up", "--no-editor"], "sandbox"),
        (["up", "--editor"], "hub"),
        (["serve"], "hub"),
        (["warden"], "hub"),
        (["token"], "hub"),
        (["run", "none.evolve.yaml"], "nets"),
        (["net", "check", "none.evolve.yaml"], "nets"),
        (["debug-adapter"], "nets"),
        (["mcp"], "mcp"),
        (["image"], "docker"),
        (["demo", "--hub", "http://127.0.0.1:9"], "hub"),
    ],
)
def test_a_command_names_the_extra_it_needs(
    base: Path, tmp_path: Path, arguments: list[str], extra: str
) -> None:
    if arguments[0] == "up":
        arguments = [*arguments, "--working-dir", str(tmp_path)]
    ran = bascule(base, *arguments, BASCULE_TOKEN="any")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("bascule: ")
    assert f"needs the extra `{extra}`" in ran.stderr
    assert f"-m pip install 'bascule[{extra}] @ file://" in ran.stderr


@pytest.mark.network
def test_the_error_has_a_code_and_the_name_of_the_extra(base: Path, tmp_path: Path) -> None:
    code = f"""
import asyncio, json
from bascule.core.actions import Browse, IPythonRun
from bascule.core.errors import MissingExtra
from bascule.runtime import LocalRuntime, VSCodeRuntime

async def main():
    said = []
    try:
        await VSCodeRuntime("http://127.0.0.1:9", "any token").connect()
    except ImportError as error:
        said.append([type(error).__name__, error.code, error.detail["extra"]])
    try:
        await LocalRuntime({str(tmp_path)!r}, process=True).connect()
    except MissingExtra as error:
        said.append([type(error).__name__, error.code, error.detail["extra"]])
    async with LocalRuntime({str(tmp_path)!r}) as runtime:
        cell = await runtime.act(IPythonRun("1"))
        page = await runtime.act(Browse("http://127.0.0.1"))
        said += [cell.error_id, "[ipython]" in cell.content, "[browser]" in page.content]
    print(json.dumps(said))

asyncio.run(main())
"""
    assert json.loads(python(base, code)) == [
        ["MissingExtra", "machine.missing_extra", "hub"],
        ["MissingExtra", "machine.missing_extra", "sandbox"],
        "machine.missing_extra",
        True,
        True,
    ]


def test_every_extra_is_known_with_its_modules(project: Path) -> None:
    declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    modules: dict[str, set[str]] = {}
    for module, names in packages_distributions().items():
        for name in names:
            modules.setdefault(_plain(name), set()).add(module)
    for extra, known in EXTRAS.items():
        wanted = declared["optional-dependencies"][extra]
        ours = {_plain(each) for each in wanted if not each.startswith("bascule[")}
        for name in ours:
            assert modules[name] & set(known), f"{name} of [{extra}] is missing in EXTRAS"
        for module in known:
            homes = {_plain(name) for name in packages_distributions()[module]}
            # python-engineio comes with python-socketio.
            assert homes & (ours | {"python-engineio"}), f"{module} is not in [{extra}]"


def _plain(requirement: str) -> str:
    name = requirement.replace("_", "-").lower()
    for end in "[><=;! ":
        name = name.partition(end)[0]
    return name.replace(".", "-")
