"""docs/architecture.md names modules that exist, and lists every exception to its rules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SOURCE = PROJECT / "src/bascule"
PAGE = (PROJECT / "docs/architecture.md").read_text()
SECTIONS = dict(re.findall(r"^### `(\w+)/`\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL))
WAITS_WITH_A_TIMEOUT = {"sandbox/session/ports.py"}
"""Modules that pause in a loop by waiting for an event with a timeout."""


def first_column(text: str) -> set[str]:
    cells = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([\w./-]+)`", cell)}


def table(heading: str) -> set[str]:
    return first_column(PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0])


def modules() -> Iterator[tuple[str, ast.Module]]:
    for file in SOURCE.rglob("*.py"):
        yield str(file.relative_to(SOURCE)), ast.parse(file.read_text())


def sleeps_in_a_loop(tree: ast.Module) -> bool:
    loops = [n for n in ast.walk(tree) if isinstance(n, ast.While | ast.For | ast.AsyncFor)]
    calls = [n for loop in loops for n in ast.walk(loop) if isinstance(n, ast.Call)]
    return any(re.fullmatch(r"(\w+\.)?sleep\((?!0\)).+\)", ast.unparse(call)) for call in calls)


def uses_the_environment(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and ast.unparse(node) in ("os.environ", "os.environb", "os.getenv")
        for node in ast.walk(tree)
    )


@pytest.mark.parametrize("package", SECTIONS)
def test_documented_modules_of_a_package_exist(package: str) -> None:
    for name in first_column(SECTIONS[package]):
        path = SOURCE / package / name
        assert path.is_dir() if name.endswith("/") else path.with_suffix(".py").is_file(), name


@pytest.mark.parametrize("package", SECTIONS)
def test_every_subpackage_is_on_the_architecture_page(package: str) -> None:
    parts = {each.parent.name for each in (SOURCE / package).glob("*/__init__.py")}

    assert {part for part in parts if f"`{part}/`" not in SECTIONS[package]} == set()


def test_every_module_that_sleeps_in_a_loop_is_listed() -> None:
    found = {name for name, tree in modules() if sleeps_in_a_loop(tree)}

    assert table("Module that sleeps in a loop") == found | WAITS_WITH_A_TIMEOUT


def test_every_module_that_uses_the_environment_is_listed() -> None:
    found = {name for name, tree in modules() if uses_the_environment(tree)}

    assert table("Module outside `cli`") == {name for name in found if not name.startswith("cli/")}
