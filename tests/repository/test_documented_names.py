"""Names in the documents exist: methods, options, environment variables, settings, files, tests."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

from bascule.cli.app import COMMANDS, tree
from bascule.cli.hub_settings import HubFile
from bascule.cli.sandbox import _parser
from bascule.core.contracts import Runtime
from bascule.core.programs import ProgramHost
from bascule.runtime.agent_test_verbs import AgentTestVerbs
from bascule.runtime.debug_verbs import DebugVerbs
from bascule.runtime.git_verbs import GitVerbs
from bascule.runtime.language_verbs import LanguageVerbs
from bascule.runtime.notebook_verbs import NotebookVerbs
from bascule.runtime.task_verbs import TaskVerbs
from bascule.runtime.verbs import Verbs
from bascule.runtime.view_verbs import ViewVerbs
from bascule.runtime.window_verbs import WindowVerbs

PROJECT = Path(__file__).parents[2]
PAGES = [
    *(PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((PROJECT / "docs").rglob("*.md")),
    *(PROJECT / f"{part}/README.md" for part in ("deploy", "extension", "images")),
]
OPTIONS_OF_OTHERS = {
    "agent-server": {"--import-modules"},
    "ACP agents": {"--acp"},
    "apt-get": {"--no-install-recommends", "--yes"},
    "bash": {"--pretty-print"},
    "benchmarks.compare": {"--only"},
    "Chromium": {"--no-sandbox"},
    "code, code-server": {"--install-extension"},
    "curl": {"--retry", "--retry-connrefused"},
    "debugpy": {"--listen", "--wait-for-client", "--pid"},
    "docker": {"--profile", "--rm"},
    "git": {
        *("--exec", "--ext-diff", "--oneline", "--output", "--receive-pack", "--shared"),
        *("--textconv", "--upload-pack"),
    },
    "inspect": {"--model", "--sandbox"},
    "pip": {"--constraint", "--no-deps", "--upgrade"},
    "pg_dump": {"--format"},
    "scripts/image, scripts/openhands_tests": {
        *("--arg", "--base", "--certificate", "--defaults", "--own", "--target"),
    },
    "shfmt": {"--to-json"},
    "rg, sort, man, fd": {
        *("--compress-program", "--exec-batch", "--hostname-bin", "--html", "--pager", "--pre"),
        *("--search-zip", "--temporary-directory"),
        "--files",  # the beginning of sort's --files0-from
    },
    "ps": {"--forest"},
    "slirp4netns": {"--enable-sandbox", "--enable-seccomp"},
    "systemctl": {"--now"},
    "useradd, usermod": {"--append", "--create-home", "--groups", "--home-dir", "--system"},
}
NAMES_OF_OTHERS = {
    "Linux": {"no_new_privs", "process_vm_readv"},
    "OpenHands": {"apply_patch", "remote_runtime_resource_factor", "task_tracker"},
}
OPEN_NAMES = r"(?<![\w/.-])`([a-z][a-z0-9]*_[a-z0-9_]+)(?:\(\))?`"
"""A name with an underscore that stands alone between backticks."""


def ids(page: Path) -> str:
    return str(page.relative_to(PROJECT))


@cache
def source() -> str:
    """All code of the repository, for searches of names."""
    suffixes = {".py", ".ts", ".tsx", ".js", ".json", ".toml", ".yaml", ".sh", ".service"}
    parts = ("src", "extension/src", "web/src", "tests", "scripts", "deploy", "benchmarks")
    files = [file for part in parts for file in (PROJECT / part).rglob("*") if file.is_file()]
    wanted = [file for file in files if file.suffix in suffixes or file.parent.name == "scripts"]
    code = [file.read_text(errors="ignore") for file in wanted if "node_modules" not in file.parts]
    return "\n".join((*code, (PROJECT / "extension/package.json").read_text()))


@cache
def words() -> frozenset[str]:
    return frozenset(re.findall(r"\w+", source()))


def options(command: Any) -> Iterator[str]:
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from options(each)
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)


def methods(kind: type) -> set[str]:
    own = vars(kind).items()
    return {name for name, each in own if inspect.iscoroutinefunction(each) and name[0] != "_"}


def test_the_python_guide_lists_the_methods_of_runtimes() -> None:
    page = (PROJECT / "docs/guides/python.md").read_text()
    section = page.partition("## Methods\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    every, recorded, programs, copying, window, language, debugger, test_runs, cells, *more = (
        [*re.findall(r"`(\w+)`", row.split("|")[1])] for row in rows
    )

    assert {*every, *recorded} == methods(Verbs)
    assert set(programs) == methods(ProgramHost)
    assert set(copying) <= methods(Runtime)
    assert set(window) == methods(WindowVerbs)
    assert set(language) == methods(LanguageVerbs)
    assert set(debugger) == methods(DebugVerbs)
    assert set(test_runs) == methods(AgentTestVerbs)
    assert set(cells) == methods(NotebookVerbs)
    assert [set(each) for each in more] == [
        methods(verbs) for verbs in (TaskVerbs, GitVerbs, ViewVerbs)
    ]


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_option_on_a_page_exists(page: Path) -> None:
    ours = set(options(tree(*(name for name in COMMANDS if name != "sandbox"))))
    ours |= {name for action in _parser()._actions for name in action.option_strings}
    others = set().union(*OPTIONS_OF_OTHERS.values())
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text()))

    assert named - ours - others - {"--help"} == set()


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_environment_variable_on_a_page_is_read_by_the_code(page: Path) -> None:
    settings = {f"BASCULE_{name.upper()}" for name in HubFile.model_fields}
    named = set(re.findall(r"\b(?:BASCULE|EVOLVE)_[A-Z_]+\b", page.read_text()))

    assert named - settings - words() == set()


def test_the_hub_page_lists_no_setting_that_does_not_exist() -> None:
    page = (PROJECT / "docs/hub.md").read_text()
    section = page.partition("## Settings\n")[2].partition("\n## ")[0]

    assert set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE)) == set(HubFile.model_fields)


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_documented_vs_code_settings_exist_in_the_extension(page: Path) -> None:
    manifest = json.loads((PROJECT / "extension/package.json").read_text())["contributes"]
    known = set(manifest["configuration"]["properties"])
    known |= {command["command"] for command in manifest["commands"]}
    named = set(re.findall(r"`((?:bascule|evolve)\.[a-z]\w*(?:\.\w+)*)`", page.read_text()))
    packages = {each.parent.name for each in (PROJECT / "src/bascule").glob("*/__init__.py")}
    modules = {name for name in named if name.split(".")[1] in packages}
    files = {name for name in named if name.endswith((".toml", ".conf", ".service"))}

    assert named - modules - files - known == set()


OWN_NAMES = [page for page in PAGES if page.stem != "openhands-compatibility"]
"""The page left out names the tests of OpenHands."""


@pytest.mark.parametrize("page", OWN_NAMES, ids=ids)
def test_every_name_on_a_page_is_in_the_code(page: Path) -> None:
    text = page.read_text()
    plain = set(re.findall(OPEN_NAMES, text))
    classes = re.findall(r"`([A-Z][a-z]+[A-Z]\w+)(?:\.([a-z_]+))?[`(]", text)
    named = plain | {part for found in classes for part in found if part}

    assert named - words() - set().union(*NAMES_OF_OTHERS.values()) == set()


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_file_of_the_repository_on_a_page_exists(page: Path) -> None:
    named = set(
        re.findall(r"`([\w.-]+(?:/[\w.-]+)+\.(?:py|ts|tsx|md|toml|json))`", page.read_text())
    )
    roots = (PROJECT, PROJECT / "src/bascule", PROJECT / "tests", PROJECT / "extension/src")
    missing = {name for name in named if not any((root / name).exists() for root in roots)}

    assert missing == set()


def test_tests_that_the_security_page_names_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (PROJECT / "docs/security.md").read_text()))

    assert named
    assert {name for name in named if f"def {name}(" not in source()} == set()
