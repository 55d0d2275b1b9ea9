"""`bascule debug-adapter`: the DAP server that an editor starts to debug a net, on stdin and
stdout."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence

_USAGE = """\
usage: bascule debug-adapter

Debug adapter for nets. An editor starts this program and speaks the Debug Adapter Protocol on its
stdin and stdout. Launch arguments: program (the net's file), stopOnEntry, noDebug, cwd, env,
python (the interpreter to run the net with), policy, seed, maxFirings, timeout, trace (a file)."""


def debug_adapter(arguments: Sequence[str]) -> int:
    """Run the debug adapter. It is not a click command, so that it starts fast and nothing else
    writes to stdout."""
    if arguments:
        is_asked = arguments[0] in ("-h", "--help")
        (sys.stdout if is_asked else sys.stderr).write(_USAGE + "\n")
        return 0 if is_asked else 2
    # Send all other output to stderr: a `print` in any library must not corrupt the messages.
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
    """Write all of `data`. Blocks while the editor does not read."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BrokenPipeError:
            return  # the editor has ended; the end of stdin will stop this process


def debuggee(arguments: Sequence[str]) -> int:
    """`bascule debuggee DESCRIPTOR`: the process in which the net runs. The adapter starts it."""
    import vscode_bridge
    import vscode_bridge.aio
    from bascule.bridge import BridgeClient, DapTransport
    from bascule.bridge.current import current_bridge
    from bascule.debug import Debuggee
    from bascule.net import load

    with socket.socket(fileno=int(arguments[0])) as connection:
        os.set_inheritable(connection.fileno(), False)
        process = Debuggee(connection)
        options = process.options()
        transport = DapTransport(process.send_bridge_request)
        process.on_bridge = transport.receive
        current_bridge.use_debug(BridgeClient(transport))
        status = process.run(load(options["program"]).unwrap(), vscode_bridge, options)
        transport.end()
    return status
