"""The runtime service that OpenHands V0's `RemoteRuntime` expects, on a hub.

OpenHands need not be installed. Written for the clients of openhands-ai 0.62.
"""

from ._mount import OpenHandsV0Mount

__all__ = ["OpenHandsV0Mount"]
