"""Which window is meant."""

from __future__ import annotations

import pytest

from bascule.core.errors import AmbiguousWindow, NoWindow
from bascule.core.window_choice import choose
from bascule.core.windows import Folder, Window, WindowId, WindowStatus


def window(name: str, *paths: str, status: WindowStatus = "healthy") -> Window:
    folders = tuple(Folder(path.rpartition("/")[2], path) for path in paths)
    return Window(id=WindowId(f"id-{name}"), name=name, folders=folders, status=status)


SHOP = window("shop", "/home/ann/shop")
DOCS = window("docs", "/home/ann/docs", "/srv/docs")


def test_the_only_window_needs_no_selector() -> None:
    assert choose([SHOP]) is SHOP


def test_an_error_for_no_window_says_how_to_open_one() -> None:
    with pytest.raises(NoWindow, match="Connect"):
        choose([])


def test_several_windows_without_a_selector_are_ambiguous() -> None:
    with pytest.raises(AmbiguousWindow) as several:
        choose([SHOP, DOCS])
    assert "id-shop" in several.value.message
    assert "/srv/docs" in several.value.message
    assert several.value.detail["windows"] == [
        {"id": "id-shop", "name": "shop"},
        {"id": "id-docs", "name": "docs"},
    ]


@pytest.mark.parametrize(
    "selector", ["id-docs", "docs", "/srv/docs", "/srv/docs/", "/home/ann/docs/src/deep.py"]
)
def test_a_window_is_picked_by_id_name_or_folder(selector: str) -> None:
    assert choose([SHOP, DOCS], selector) is DOCS


def test_a_selector_without_a_match_lists_the_windows() -> None:
    with pytest.raises(NoWindow, match="id-shop"):
        choose([SHOP, DOCS], "/elsewhere")
    with pytest.raises(NoWindow):
        choose([SHOP], "/home/ann/shopping")


def test_the_closest_folder_wins() -> None:
    inner = window("inner", "/home/ann/shop/api")
    assert choose([SHOP, inner], "/home/ann/shop/api/main.py") is inner
    assert choose([SHOP, inner], "/home/ann/shop/web") is SHOP


def test_two_windows_of_one_folder_are_ambiguous() -> None:
    with pytest.raises(AmbiguousWindow):
        choose([SHOP, window("again", "/home/ann/shop")], "/home/ann/shop")


def test_disconnected_windows_are_not_selected() -> None:
    assert choose([SHOP, window("old", "/old", status="gone")]) is SHOP
    with pytest.raises(NoWindow):
        choose([window("old", "/old", status="gone")], "old")


def test_a_healthy_window_is_preferred_over_an_unhealthy_one() -> None:
    assert choose([window("dead", "/dead", status="unhealthy"), SHOP]) is SHOP
    dead = window("dead", "/dead", status="unhealthy")
    assert choose([dead, SHOP], "dead") is dead


@pytest.mark.parametrize("selector", ["", "old", "/old"])
def test_selecting_a_disconnected_window_advises_reloading_it(selector: str) -> None:
    """VS Code does not restart an extension host that died often, though the window is open."""
    gone = window("old", "/old", status="gone")
    others = [SHOP] if selector else []
    with pytest.raises(NoWindow, match=r"old.*/old.*reload the window"):
        choose([gone, *others], selector)
