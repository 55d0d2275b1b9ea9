"""Reads docstrings of dataclasses and their fields from the source, for documentation."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Mapping
from functools import cache
from itertools import pairwise


def class_docstring(cls: type) -> str:
    """The docstring in the source of `cls`, not the signature that dataclasses generate."""
    return ast.get_docstring(_definition(cls)) or ""


def field_docstrings(cls: type) -> Mapping[str, str]:
    """The string literals below the fields that `cls` itself declares."""
    found = {}
    for field, below in pairwise(_definition(cls).body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
    return found


def _definition(cls: type) -> ast.ClassDef:
    return _definitions(cls.__module__)[cls.__name__]


@cache
def _definitions(module: str) -> Mapping[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
