from __future__ import annotations

import importlib

import pytest


@pytest.mark.parametrize("room", ["bascule.runtime", "bascule.link", "bascule.sandbox"])
def test_package_exports_exist_and_public_imports_are_exported(room: str) -> None:
    module = importlib.import_module(room)
    listed = getattr(module, "__all__", [])
    for name in listed:
        getattr(module, name)  # some are imported only now
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith(room + ".")
    }
    assert sorted(listed) == list(listed)
    assert set(listed) == public
