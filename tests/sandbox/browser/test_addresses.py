"""What an agent is told about a page that could not be opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from bascule.sandbox.browser.address_resolver import AddressResolver
from bascule.sandbox.browser.file_viewer import FileViewer
from bascule.sandbox.browser.socks_proxy import BrowserProxy


@pytest.mark.parametrize("url", ["data:text/html,<p>Text</p>", "about:blank"])
def test_a_url_without_a_host_that_fails_to_open_is_explained(url: str) -> None:
    viewer = FileViewer(Path)
    resolver = AddressResolver(BrowserProxy((), viewer.serve), viewer, own=(), allows_files=True)

    why = resolver.explain(url, "Page.goto: net::ERR_ABORTED\nCall log:")

    assert why == f"{url} could not be opened: Page.goto: net::ERR_ABORTED"
