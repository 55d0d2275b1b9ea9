"""The first process of a session's pod: `python -m bascule.runtime.spawn.kubernetes._gateway_main`.

It starts the gateway as its child and reaps orphans of the session, as the first process of a PID
namespace has to. When the gateway ends, this process ends too, and the kernel kills all others.

The programs of the session run as the same user and could read the gateway's key. With it they
could only pose as their own pod.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from typing import Final

CERTIFICATE: Final = "BASCULE_HUB_CERTIFICATE"
"""Variable with the certificate of the only client that the gateway accepts."""
PORT: Final = 8443
ANNOUNCEMENT: Final = "answers with "
"""Start of the first line of the log; the gateway's certificate follows."""


def main() -> None:
    gateway = os.fork()
    if gateway == 0:
        run_gateway()
    signal.signal(signal.SIGTERM, lambda *_: os.kill(gateway, signal.SIGTERM))
    while True:
        pid, status = os.wait()
        if pid == gateway:
            code = os.waitstatus_to_exitcode(status)
            sys.exit(code if code >= 0 else 128 - code)


def run_gateway() -> None:
    """Serve until the session has ended. Never returns."""
    # Imported in the child: the first process stays small.
    import uvloop

    status = uvloop.run(_serve(os.environ))
    sys.stdout.flush()
    os._exit(status)


async def _serve(environment: Mapping[str, str]) -> int:
    import asyncio
    import socket
    from pathlib import Path

    from bascule.runtime.spawn.session_paths import HOME, HUB_DIR, RUN_DIR, STATE_DIR, WORKSPACE
    from bascule.sandbox.process_table import ProcessInfo, all_processes

    from .key_pairs import certificate_of_line, new_key_pair, server_tls
    from .pod_gateway import GatewaySettings, PodGateway

    own = {1, os.getpid()}

    def processes() -> Mapping[int, ProcessInfo]:
        return {pid: each for pid, each in all_processes().items() if pid not in own}

    pair = new_key_pair("pod")
    settings = GatewaySettings(
        run_dir=Path(RUN_DIR),
        hub_dir=Path(HUB_DIR),
        list_processes=processes,
        measured=tuple(map(Path, (WORKSPACE, HOME, STATE_DIR, RUN_DIR))),
        variables={
            name: value
            for name, value in environment.items()
            if not name.startswith(("KUBERNETES_", CERTIFICATE))
        },
    )
    tls = server_tls(pair, certificate_of_line(environment[CERTIFICATE]))
    async with PodGateway(settings, tls) as gateway:
        terminating: set[asyncio.Task[None]] = set()

        def terminate() -> None:
            terminating.add(asyncio.ensure_future(gateway.terminate()))

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        has_ipv6 = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if has_ipv6 else socket.AF_INET
        await gateway.open(socket.create_server(("", PORT), family=family, dualstack_ipv6=has_ipv6))
        print(f"{ANNOUNCEMENT}{pair.line}", flush=True)  # noqa: T201 - the hub reads the log
        return await gateway.ended


if __name__ == "__main__":
    main()
