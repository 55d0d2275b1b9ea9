"""Chooses a window by a selector. Pure rules, no I/O."""

from __future__ import annotations

import os.path
from collections.abc import Sequence

from .errors import AmbiguousWindow, NoWindow
from .printable import one_line
from .windows import Window


def choose(windows: Sequence[Window], selector: str = "") -> Window:
    """The one window that matches `selector`: its id, a path in one of its folders, or its name.

    Without a selector, the only one there is. Windows that are gone do not count, and of those
    that fit, the healthy go first. A session says by itself what its window is called and which
    folders it has: so that window answers to no path, and to a name only when no other window
    does. Raises `NoWindow`, or `AmbiguousWindow` rather than take one
    of several.
    """
    here = [each for each in windows if each.status != "gone"]
    fitting = _fitting(here, selector) if selector else _own(here) or here
    fitting = [each for each in fitting if each.status == "healthy"] or fitting
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise AmbiguousWindow(
            f"{(repr(selector) if selector else 'No selector')} matches {len(fitting)} "
            f"windows: {_names(fitting)}. Name one by its id or folder",
            windows=[{"id": each.id, "name": each.name} for each in fitting],
        )
    raise NoWindow(_nothing(windows, here, selector), selector=selector)


def _fitting(windows: Sequence[Window], selector: str) -> Sequence[Window]:
    if by_id := [each for each in windows if each.id == selector]:
        return by_id
    by_name = [each for each in windows if each.name == selector]
    return _by_folder(_own(windows), selector) or _own(by_name) or by_name


def _own(windows: Sequence[Window]) -> Sequence[Window]:
    """Windows that belong to people, not to sessions."""
    return [each for each in windows if not each.session_id]


def _by_folder(windows: Sequence[Window], selector: str) -> Sequence[Window]:
    """Windows with a folder that contains the path; the closest folder wins."""
    if not selector.startswith(("/", "~", ".")) and ":" not in selector[:3]:
        return ()
    path = os.path.normpath(selector)
    best: list[Window] = []
    length = -1
    for window in windows:
        depths = [len(root) for root in _roots(window) if _holds(root, path)]
        if not depths or max(depths) < length:
            continue
        best = [*best, window] if max(depths) == length else [window]
        length = max(depths)
    return best


def _roots(window: Window) -> Sequence[str]:
    return [os.path.normpath(folder.path) for folder in window.folders if folder.path]


def _holds(root: str, path: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _names(windows: Sequence[Window]) -> str:
    return "; ".join(
        one_line(f"{each.name or 'unnamed'} ({each.id}, {', '.join(_roots(each)) or 'no folder'})")
        for each in windows
    )


def _nothing(windows: Sequence[Window], here: Sequence[Window], selector: str) -> str:
    gone = [each for each in windows if each.status == "gone"]
    if meant := _fitting(gone, selector) if selector else gone if not here else ():
        # VS Code starts an extension host that died again, but not for ever: the window stays open.
        return (
            f"No longer connected: {_names(meant)}. If the window is still open, reload "
            "the window; otherwise open it again"
        )
    if not here:
        return (
            "No VS Code window is connected to the hub; in VS Code run the command "
            "'Bascule: Connect to a Hub'"
        )
    return f"No window matches {selector!r}; connected windows: {_names(here)}"
