"""How many files a hub may have open."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from bascule.cli.open_files import raise_open_file_limit


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_open_file_limit_is_raised_to_the_hard_limit_at_most_65536() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
    raise_open_file_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, 65536), hard)
