"""Types and exported names are unique within `extension/src` and within `web/src`."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

TYPE = re.compile(
    r"^(?:export )?(?:default )?(?:abstract )?(?:class|interface|type|enum) (\w+)", re.MULTILINE
)
EXPORT = re.compile(r"^export (?:async )?(?:const|let|function\*?) (\w+)", re.MULTILINE)


def declared(source: str) -> set[str]:
    return {*TYPE.findall(source), *EXPORT.findall(source)}


@pytest.mark.parametrize("part", ["extension", "web"])
def test_no_two_modules_declare_the_same_name(project: Path, part: str) -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    root = project / part / "src"
    for file in sorted([*root.rglob("*.ts"), *root.rglob("*.tsx")]):
        for name in declared(file.read_text()):
            homes[name].append(str(file.relative_to(root)))

    assert len(homes) > 50
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def test_classes_types_and_exported_functions_are_found() -> None:
    source = "export class A {}\ninterface B {}\nexport async function c() {}\nconst d = 1;\n"

    assert declared(source) == {"A", "B", "c"}
