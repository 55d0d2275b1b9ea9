"""Print pip's configuration of package indexes as environment variables for uv.

uv does not read pip's files and variables. Each line is NAME=VALUE. Variables that are already set
are not printed. Run it with a Python that has pip.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

_SECTIONS = ("global", "install", ":env:")
"""Sections of pip's configuration that apply to `pip install`. Later ones override earlier ones."""


def main() -> None:
    command = [sys.executable, "-m", "pip", "config", "list"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name, value in variables(read(told)):
        if name not in os.environ:
            print(f"{name}={value}")


def read(told: str) -> Mapping[str, str]:
    """Parse the output of `pip config list` into values by option."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in told.splitlines():
        key, _, value = line.partition("=")
        section, _, option = key.rpartition(".")
        if section in found:
            found[section][option] = str(ast.literal_eval(value))
    return {name: value for section in _SECTIONS for name, value in found[section].items()}


def variables(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The equivalent environment variables of uv."""
    # pip takes the best version from all indexes; by default uv takes the first index that has the
    # package.
    yield "UV_INDEX_STRATEGY", "unsafe-best-match"
    for option, name, separator in (
        ("index-url", "UV_DEFAULT_INDEX", " "),
        ("extra-index-url", "UV_INDEX", " "),
        ("find-links", "UV_FIND_LINKS", ","),
        ("trusted-host", "UV_INSECURE_HOST", " "),
        ("no-index", "UV_NO_INDEX", " "),
        ("cert", "SSL_CERT_FILE", " "),
        ("default-timeout", "UV_HTTP_TIMEOUT", " "),
        ("timeout", "UV_HTTP_TIMEOUT", " "),
        ("proxy", "ALL_PROXY", " "),
    ):
        if words := options.get(option, "").split():
            yield name, separator.join(words)


if __name__ == "__main__":
    main()
