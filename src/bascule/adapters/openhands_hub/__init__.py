"""A hub as OpenHands' own clients expect one: the service behind V0's `RemoteRuntime`.

Needs nothing of OpenHands to be installed. Made for the clients of openhands-ai 0.62.
"""

from ._mount import OpenHandsV0Mount

__all__ = ["OpenHandsV0Mount"]
