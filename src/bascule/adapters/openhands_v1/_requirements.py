"""Raises a clear error if OpenHands V1 is not installed."""

from importlib.util import find_spec

if find_spec("openhands") is None or find_spec("openhands.tools") is None:
    raise ModuleNotFoundError(
        "OpenHands V1 is not installed here; with Python 3.12 or newer: "
        "pip install 'openhands-sdk==1.58.*' 'openhands-tools==1.58.*'",
        name="openhands",
    )
