"""Raises a clear error if OpenHands V0 is not installed."""

from importlib.util import find_spec

if find_spec("openhands") is None or find_spec("openhands.runtime") is None:
    raise ModuleNotFoundError(
        "OpenHands V0 is not installed here; it is the package openhands-ai 0.62, for Python 3.12",
        name="openhands",
    )
