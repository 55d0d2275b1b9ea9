"""A pytest plugin: OpenHands' own tests, told to test its remote runtime, get ours instead."""

from __future__ import annotations

import openhands.runtime.impl.remote.remote_runtime as remote

from bascule.adapters.openhands_v0 import SandboxRuntime

remote.RemoteRuntime = SandboxRuntime
