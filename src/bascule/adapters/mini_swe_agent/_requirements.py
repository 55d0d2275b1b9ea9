"""Raises a clear error if mini-swe-agent is not installed."""

from importlib.util import find_spec

if find_spec("minisweagent") is None:
    raise ModuleNotFoundError(
        "mini-swe-agent is not installed here: pip install 'mini-swe-agent>=2.4.6'",
        name="minisweagent",
    )
