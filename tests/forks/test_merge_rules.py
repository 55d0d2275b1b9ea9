"""What becomes of one path that a fork changed."""

from __future__ import annotations

import itertools

import pytest

from bascule.forks.merge_rules import PathVersion, merge_versions
from bascule.forks.secret_files import is_secret


def file(content: str, mode: int = 0o644) -> PathVersion:
    return PathVersion("file", content.encode(), mode)


LINK = PathVersion("link", b"target")
DIRECTORY = PathVersion("directory")
VERSIONS = [
    None,
    file("a\n"),
    file("b\n"),
    file("a\n", 0o755),
    PathVersion("file", b"\0", 0o644),
    LINK,
    DIRECTORY,
    PathVersion("other"),
]


def test_a_file_is_replaced_only_if_the_fork_started_from_its_content() -> None:
    """Every combination: what only exists here survives, or a conflict is named."""
    for base, ours, theirs in itertools.product(VERSIONS, repeat=3):
        merge = merge_versions(base, ours, theirs)
        if merge.outcome == "conflict":
            assert merge.reason
            assert ours != base
            assert theirs not in (base, ours)
        elif merge.outcome == "taken":
            assert ours == base
            assert merge.version == theirs
        elif merge.outcome == "same":
            assert merge.version == ours


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "reason"),
    [
        (None, file("a\n"), file("b\n"), "added in both, with different contents"),
        (file("a\n"), None, file("b\n"), "changed in the fork, removed here"),
        (file("a\n"), file("b\n"), None, "removed in the fork, changed here"),
        (file("a\n"), file("b\n"), file("c\n"), "the same lines were changed in both"),
        (
            file("a\n"),
            file("a\n", 0o600),
            file("a\n", 0o755),
            "the permissions were changed in both",
        ),
        (file("a\0"), file("b\0"), file("c\0"), "changed in both, and not a text file"),
        (file("a"), LINK, file("b"), "changed in both, and not a regular file everywhere"),
    ],
)
def test_the_reason_of_a_conflict_is_named(
    base: PathVersion | None, ours: PathVersion | None, theirs: PathVersion | None, reason: str
) -> None:
    assert merge_versions(base, ours, theirs).reason == reason


def test_permissions_of_one_side_and_lines_of_the_other_are_merged() -> None:
    merge = merge_versions(file("a\n"), file("a\n", 0o755), file("b\n"))
    assert (merge.outcome, merge.version) == ("merged", file("b\n", 0o755))
    merge = merge_versions(file("a\nb\nc\n"), file("A\nb\nc\n", 0o755), file("a\nb\nC\n"))
    assert (merge.outcome, merge.version) == ("merged", file("A\nb\nC\n", 0o755))


def test_files_too_large_to_compare_are_a_conflict() -> None:
    large = "x\n" * (3 << 20)
    merge = merge_versions(file(large), file("a\n" + large), file(large + "b\n"))
    assert merge.reason == "changed in both, and larger than 4 MiB"
    lines = "".join(f"{number}\n" for number in range(15_000))
    merge = merge_versions(file("a\n" + lines), file(lines.replace("1", "x")), file(lines + "b\n"))
    assert "lines differ" in merge.reason


@pytest.mark.parametrize(
    "path",
    [".env", "app/.env.local", "prod.env", "tls/server.pem", "id_rsa", "home/.ssh", ".npmrc",
     "x.tfvars", "deploy/client_secret_1.json", "KEYS.KEY"],
)  # fmt: skip
def test_file_names_of_secrets_are_recognised(path: str) -> None:
    assert is_secret(path)


@pytest.mark.parametrize(
    "path", [".env.example", ".env.sample", "environment.py", "id_rsa.pub", "keys.py", "a.pem/b"]
)
def test_other_file_names_are_not_secrets(path: str) -> None:
    assert not is_secret(path)
