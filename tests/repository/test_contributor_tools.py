"""The files for contributors' tools name commands, tasks and scripts that exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

PROJECT = Path(__file__).parents[2]
TARGETS = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))


def json_of(path: str) -> Any:
    return json.loads((PROJECT / path).read_text())


def yaml_of(path: str) -> Any:
    return YAML(typ="safe").load((PROJECT / path).read_text())


TASKS = {each["label"]: each["command"] for each in json_of(".vscode/tasks.json")["tasks"]}
LAUNCHES = {each["name"]: each for each in json_of(".vscode/launch.json")["configurations"]}
HOOKS = {each["id"]: each for each in yaml_of(".pre-commit-config.yaml")["repos"][0]["hooks"]}
CREATED = json_of(".devcontainer/devcontainer.json")["postCreateCommand"]


def lack_of(command: str) -> str:
    """Why a command cannot be run in a clone after `make setup`; empty if it can."""
    program, *arguments = shlex.split(command)
    if program == "make":
        return "" if set(arguments) <= TARGETS else f"no such target: {arguments}"
    if program == "npm":
        part, script = arguments[arguments.index("--prefix") + 1], arguments[-1]
        return "" if script in json_of(f"{part}/package.json")["scripts"] else f"no script {script}"
    if not (shutil.which(program) or (PROJECT / program).is_file()):
        return f"no program {program}"
    named = [each for each in arguments if each.startswith("scripts/")]
    return "".join(f"no file {each}" for each in named if not (PROJECT / each).is_file())


@pytest.mark.parametrize(
    "command", [*TASKS.values(), *(each["entry"] for each in HOOKS.values()), CREATED]
)
def test_a_command_of_a_task_or_hook_exists(command: str) -> None:
    assert not lack_of(command)


def test_a_missing_command_of_a_task_or_hook_is_detected() -> None:
    assert lack_of("make no-such-target")
    assert lack_of("npm --silent --prefix web run no-such-script")
    assert lack_of(".venv/bin/no-such-program")
    assert lack_of(".venv/bin/python scripts/no_such_file.py")


@pytest.mark.parametrize("name", LAUNCHES)
def test_launch_configurations_start_existing_modules_and_paths(name: str) -> None:
    launch = LAUNCHES[name]
    assert find_spec(launch.get("module", "bascule")) is not None
    assert launch.get("preLaunchTask", "build page") in TASKS
    arguments = [str(each) for each in launch.get("args", ())]
    developed = [each.partition("=")[2] for each in arguments if "DevelopmentPath=" in each]
    for path in (*developed, launch.get("webRoot", "${workspaceFolder}")):
        assert Path(path.replace("${workspaceFolder}", str(PROJECT))).is_dir()


def test_hooks_run_the_tools_of_make_check_and_download_nothing() -> None:
    checked = (PROJECT / "scripts/check").read_text()
    tools = set(re.findall(r"\$bin/([\w-]+)", checked))
    entries = " ".join(each["entry"] for each in HOOKS.values())
    assert tools == set(re.findall(r"\.venv/bin/([\w-]+)", entries))
    assert {each["language"] for each in HOOKS.values()} == {"system"}


def test_templates_of_issues_have_what_github_requires() -> None:
    for file in (PROJECT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml_of(str(file.relative_to(PROJECT)))
        if file.name == "config.yml":
            assert isinstance(form["blank_issues_enabled"], bool)
            continue
        assert form["name"]
        assert form["description"]
        for part in form["body"]:
            assert part["type"] in ("markdown", "textarea", "input", "dropdown", "checkboxes")
            assert part["attributes"].get("label") or part["type"] == "markdown"
