"""What a module lists in `__all__` is there, and a room's face lists what it shows."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest

import bascule

FOUND = [
    module
    for module in pkgutil.walk_packages(bascule.__path__, "bascule.")
    if not module.name.rpartition(".")[2].startswith("_")
]
MODULES = sorted(module.name for module in FOUND)
ROOMS = sorted(module.name for module in FOUND if module.ispkg)


@pytest.mark.parametrize("name", MODULES)
def test_every_listed_name_exists(name: str) -> None:
    module = _imported(name)
    listed = getattr(module, "__all__", [])

    assert [each for each in listed if not hasattr(module, each)] == []
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("name", ROOMS)
def test_a_package_lists_every_public_name_in_all(name: str) -> None:
    module = _imported(name)
    shown = {each for each in vars(module) if _is_ours(module, each)}

    assert shown <= set(getattr(module, "__all__", []))


def _imported(name: str) -> ModuleType:
    """An adapter whose package is not installed here says so, and is tested where it is."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not name.startswith("bascule.adapters."):
            raise
        pytest.skip(str(error))


def _is_ours(module: ModuleType, name: str) -> bool:
    """A public class or function of this room; modules and imports from below do not count."""
    thing = getattr(module, name)
    home = getattr(thing, "__module__", None) or ""
    return (
        not name.startswith("_")
        and not isinstance(thing, ModuleType)
        and home.startswith(module.__name__)
    )
