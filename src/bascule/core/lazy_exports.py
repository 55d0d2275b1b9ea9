"""Imports names of a package on first use, so that importing the package stays fast."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package. `modules` maps each name to the module that defines it.

    After the first use, a name is an attribute of the package. Raises `MissingExtra` if its module
    needs an extra that is not installed.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(f".{modules[name]}", package), name)
        except ModuleNotFoundError as error:
            from .extras import missing_extra

            raise missing_extra(error) from error
        setattr(sys.modules[package], name, value)
        return value

    return get
