"""`bascule debug-adapter`: what an editor starts to debug a net. Speaks DAP on stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence

_USAGE = """\
usage: bascule debug-adapter

Debug adapter for nets. An editor starts it and speaks the Debug Adapter Protocol with it on
stdin and stdout. Launch arguments: program (the net's file), stopOnEntry, noDebug, cwd, env,
python (the interpreter to run the net with), policy, seed, maxFirings, timeout, trace (a file)."""


def debug_adapter(arguments: Sequence[str]) -> int:
    """Apart from the other commands for its speed, and because it owns stdout."""
    if arguments:
        is_asked = arguments[0] in ("-h", "--help")
        (sys.stdout if is_asked else sys.stderr).write(_USAGE + "\n")
        return 0 if is_asked else 2
    # Whatever else writes to stdout, here or in a library, must not get between messages.
    messages = os.dup(1)
    os.dup2(2, 1)
    asyncio.run(_serve(messages))
    return 0


async def _serve(messages: int) -> None:
    from bascule.debug import Adapter

    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    with os.fdopen(messages, "wb", buffering=0) as out:
        command = [sys.executable, "-X", "frozen_modules=off", "-m", "bascule", "debuggee"]
        await Adapter(lambda data: _write(out.fileno(), data), command).serve(reader)


def _write(descriptor: int, data: bytes) -> None:
    """All of it; an editor that reads slowly is waited for."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BrokenPipeError:
            return  # the editor is gone; so is its end of stdin, which ends us


def debuggee(arguments: Sequence[str]) -> int:
    """`bascule debuggee DESCRIPTOR`: started by the adapter, never by hand."""
    import vscode_bridge
    import vscode_bridge.aio
    from bascule.bridge import BridgeClient, DapTransport
    from bascule.bridge.current import here
    from bascule.debug import Debuggee
    from bascule.net import load

    with socket.socket(fileno=int(arguments[0])) as connection:
        os.set_inheritable(connection.fileno(), False)
        process = Debuggee(connection)
        options = process.options()
        transport = DapTransport(process.ask)
        process.on_bridge = transport.receive
        here.use_debug(BridgeClient(transport))
        status = process.run(load(options["program"]).unwrap(), vscode_bridge, options)
        transport.end()
    return status
