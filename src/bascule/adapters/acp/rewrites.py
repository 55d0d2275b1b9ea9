"""Changes of messages by the proxy, except for paths. Rules only, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

OPENS_SESSION: Final = frozenset({"session/new", "session/load", "session/resume", "session/fork"})
"""Requests with a `cwd` and a list of MCP servers."""

READS_MISSING_AS_EMPTY: Final = frozenset({"gemini-cli"})
"""Names of agents that get an empty text for a file that does not exist. Gemini CLI 0.61 cannot
recognize the error of its own ACP library, and would never create a file."""


def with_client_methods(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of `initialize`, with the methods that the proxy answers."""
    known = params.get("clientCapabilities")
    capabilities = dict(known) if isinstance(known, Mapping) else {}
    files = capabilities.get("fs")
    capabilities["fs"] = {
        **(files if isinstance(files, Mapping) else {}),
        "readTextFile": True,
        "writeTextFile": True,
    }
    capabilities["terminal"] = True
    return {**params, "clientCapabilities": capabilities}


def with_mcp_server(params: Mapping[str, Any], server: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a request that opens a session, with our MCP server added.

    A server of the client with the same name is kept, and ours gets another name.
    """
    given = params.get("mcpServers")
    servers = list(given) if isinstance(given, list) else []
    taken = {each.get("name") for each in servers if isinstance(each, Mapping)}
    name, number = server["name"], 2
    while name in taken:
        name, number = f"{server['name']}-{number}", number + 1
    return {**params, "mcpServers": [*servers, {**server, "name": name}]}
