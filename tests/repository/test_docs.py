"""The documents say what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCUMENTS = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs",
    "deploy",
    "images",
)


def _pages(project: Path) -> list[Path]:
    named = [project / name for name in DOCUMENTS]
    return [page for each in named for page in (each.rglob("*.md") if each.is_dir() else [each])]


def test_every_relative_link_leads_somewhere(project: Path) -> None:
    broken = [
        f"{page.relative_to(project)}: {target}"
        for page in _pages(project)
        for target in re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", page.read_text())
        if not (page.parent / target).exists()
    ]

    assert broken == []


def _slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def _anchors(page: Path) -> set[str]:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {_slug(heading) for heading in re.findall(r"^#+ (.+)$", prose, re.MULTILINE)}


def test_every_link_to_a_heading_finds_it(project: Path) -> None:
    broken = [
        f"{page.relative_to(project)}: {target}#{anchor}"
        for page in _pages(project)
        for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([\w-]+)\)", page.read_text())
        if anchor not in _anchors(page.parent / target if target else page)
    ]

    assert broken == []


def test_the_architecture_page_has_exactly_one_section_per_package(project: Path) -> None:
    page = (project / "docs/architecture.md").read_text()
    described = re.findall(r"^### `(\w+)/`", page, re.MULTILINE)
    rooms = [room.parent.name for room in (project / "src/bascule").glob("*/__init__.py")]

    assert sorted(described) == sorted(rooms)


def test_decision_numbers_have_no_gap_or_duplicate(project: Path) -> None:
    names = sorted(page.name for page in (project / "docs/decisions").glob("*.md"))

    assert [name[:4] for name in names] == [f"{n:04}" for n in range(1, len(names) + 1)]


@pytest.mark.parametrize("name", DOCUMENTS[:4])
def test_every_documented_make_target_exists(project: Path, name: str) -> None:
    named = set(re.findall(r"`make ([a-z-]+)`", (project / name).read_text()))
    verbs = set(re.findall(r"^([a-z-]+):", (project / "Makefile").read_text(), re.MULTILINE))

    assert named <= verbs
