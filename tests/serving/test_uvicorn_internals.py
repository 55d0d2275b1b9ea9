"""The internal names of uvicorn that we build on exist, and are all listed."""

from __future__ import annotations

import ast
import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
import uvicorn

import bascule
from bascule.serving.uvicorn_internals import (
    RELIED_ON,
    Config,
    FlowControl,
    HttpToolsProtocol,
    RequestResponseCycle,
    ServerState,
    WebSocketsSansIOProtocol,
)

SOURCE = Path(bascule.__file__).parent
SUBCLASSES: tuple[tuple[str, str, type], ...] = (
    ("serving/connection.py", "Connection", HttpToolsProtocol),
    ("serving/connection.py", "WebSocket", WebSocketsSansIOProtocol),
    ("hub/proxy/client_connection.py", "ClientConnection", HttpToolsProtocol),
    ("hub/proxy/exchange.py", "Exchange", RequestResponseCycle),
)
USERS = {"serving/listener.py", *(file for file, _, _ in SUBCLASSES)}
LISTED = [(owner, name, use) for owner, use, names in RELIED_ON for name in names.split()]


class _Transport(asyncio.Transport):
    """Of a connection that never was."""


async def _app(scope: object, receive: object, send: object) -> None:
    raise AssertionError("nobody calls it")


async def _made() -> dict[type, Any]:
    """One object of each class, as uvicorn or our subclasses make it: most names are not the
    class's."""
    config = Config(_app, interface="asgi3", lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    flow = FlowControl(_Transport())
    protocol = HttpToolsProtocol(config=config, server_state=state, app_state={})
    protocol.on_message_begin()
    cycle = RequestResponseCycle(
        scope=protocol.scope,
        transport=_Transport(),
        flow=flow,
        logger=logging.getLogger(),
        access_logger=logging.getLogger(),
        access_log=False,
        default_headers=[],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=True,
        on_response=lambda: None,
    )
    websocket = WebSocketsSansIOProtocol(config=config, server_state=state, app_state={})
    return {type(each): each for each in (state, flow, protocol, cycle, websocket)}


@pytest.fixture(scope="module")
def made() -> dict[type, Any]:
    return asyncio.run(_made())


@pytest.mark.parametrize(("owner", "name", "use"), LISTED)
def test_uvicorn_has_every_name_that_we_rely_on(
    made: dict[type, Any], owner: type, name: str, use: str
) -> None:
    assert hasattr(made[owner], name), (
        f"uvicorn {uvicorn.__version__} has no {owner.__name__}.{name}, which is {use}. Keep the "
        "version that pyproject.toml had before, or change the code that uses the name and "
        "RELIED_ON in src/bascule/serving/uvicorn_internals.py"
    )


@pytest.mark.parametrize(("file", "subclass", "base"), SUBCLASSES)
def test_every_name_that_a_subclass_uses_is_listed(
    made: dict[type, Any], file: str, subclass: str, base: type
) -> None:
    theirs = {name for name in dir(made[base]) if not hasattr(asyncio.Protocol, name)}
    listed = {name for owner, name, _ in LISTED if owner is base}

    assert (_names_in(file, subclass) & theirs) - listed == set()


def test_every_listed_uvicorn_name_is_still_used() -> None:
    used = set[str]().union(*(_names_in(file) for file in USERS))

    assert {name for _, name, _ in LISTED} - used == set()


def _names_in(file: str, subclass: str = "") -> set[str]:
    """Methods that are defined and attributes that are used: of any object, or if a class is
    named, of itself."""
    tree: ast.AST = ast.parse((SOURCE / file).read_text())
    if subclass:
        classes = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]
        (tree,) = [each for each in classes if each.name == subclass]
    nodes = list(ast.walk(tree))
    methods = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    uses = [n for n in nodes if isinstance(n, ast.Attribute)]
    return methods | {n.attr for n in uses if not subclass or ast.unparse(n.value) == "self"}
