"""Adds the missing scheme to a server address."""

from __future__ import annotations


def with_scheme(text: str) -> str:
    """`text` as a URL: without a scheme it is meant as http."""
    return text if "://" in text else f"http://{text}"
