from __future__ import annotations

import importlib

import pytest


@pytest.mark.parametrize("room", ["bascule.runtime", "bascule.link", "bascule.sandbox"])
def test_what_a_room_lists_is_there_and_what_it_imports_is_listed(room: str) -> None:
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
