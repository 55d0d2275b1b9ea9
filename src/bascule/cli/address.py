"""Adds the missing scheme to a server address."""

from __future__ import annotations


def with_scheme(text: str) -> str:
    """`text` as a URL. The default scheme is http."""
    return text if "://" in text else f"http://{text}"
