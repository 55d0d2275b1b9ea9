"""Raises a clear error if Inspect AI is not installed."""

from importlib.util import find_spec

if find_spec("inspect_ai") is None:
    raise ModuleNotFoundError(
        "Inspect AI is not installed here: pip install 'inspect-ai>=0.3.285'", name="inspect_ai"
    )
