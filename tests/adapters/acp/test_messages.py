"""The rules about messages and paths, without a conversation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bascule.adapters.acp import messages
from bascule.adapters.acp.lines import LineOutbox, LineSplitter
from bascule.adapters.acp.messages import InvalidMessage, MessageKind, decode
from bascule.adapters.acp.paths import SAME_PATHS, PathMap, is_inside, map_for, map_paths
from bascule.adapters.acp.rewrites import with_client_methods, with_mcp_server
from bascule.adapters.acp.terminals import OutputTail, TerminalRequest
from bascule.core.errors import InvalidRequest, MessageTooLarge, QuotaExceeded


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"m"}', MessageKind.REQUEST),
        (b'{"jsonrpc":"2.0","id":"","method":"m","params":[1]}', MessageKind.REQUEST),
        (b'{"jsonrpc":"2.0","method":"m"}', MessageKind.NOTIFICATION),
        (b' {"jsonrpc" : "2.0","id":0,"result":null} ', MessageKind.ANSWER),
        (b'{"jsonrpc":"2.0","id":"a","error":{"code":1}}', MessageKind.ANSWER),
    ],
)
def test_a_message_keeps_its_bytes(line: bytes, kind: MessageKind) -> None:
    message = decode(line)
    assert (message.kind, message.line) == (kind, line)
    assert (message.params, message.result) == ({}, {})


@pytest.mark.parametrize(
    ("line", "code", "message_id"),
    [
        (b"{", messages.PARSE_ERROR, None),
        (b"\xff\xfe", messages.PARSE_ERROR, None),
        (b'{"id":1,"method":"m","params":{"x":NaN}}', messages.PARSE_ERROR, None),
        (b'{"x":' * 100_000, messages.PARSE_ERROR, None),
        (b"9" * 10_000, messages.PARSE_ERROR, None),
        (b'[{"id":1,"method":"m"}]', messages.INVALID_MESSAGE, None),
        (b"7", messages.INVALID_MESSAGE, None),
        (b"{}", messages.INVALID_MESSAGE, None),
        (b'{"id":1}', messages.INVALID_MESSAGE, None),
        (b'{"id":1,"result":1,"error":{}}', messages.INVALID_MESSAGE, None),
        (b'{"id":null,"method":"m"}', messages.INVALID_MESSAGE, None),
        (b'{"id":true,"method":"m"}', messages.INVALID_MESSAGE, None),
        (b'{"id":{},"method":"m"}', messages.INVALID_MESSAGE, None),
        (b'{"id":5,"method":7}', messages.INVALID_MESSAGE, 5),
    ],
)
def test_what_is_no_message_is_refused(line: bytes, code: int, message_id: object) -> None:
    with pytest.raises(InvalidMessage) as refused:
        decode(line)
    assert (refused.value.code, refused.value.message_id) == (code, message_id)
    assert len(refused.value.message) < 1000


def test_a_message_without_version_is_passed_on_with_one() -> None:
    message = decode(b'{"id":1,"method":"m","_x":"\\ud800"}')
    assert message.line == b'{"id":1,"method":"m","_x":"\\ud800","jsonrpc":"2.0"}'


def test_paths_are_mapped_where_the_protocol_has_paths() -> None:
    moved = PathMap("/home/me/p", "/workspace")
    message: dict[str, Any] = {
        "cwd": "/home/me/p/",
        "additionalDirectories": ["/home/me/p/a", "/else"],
        "prompt": [
            {"type": "text", "text": "/home/me/p"},
            {"type": "resource_link", "uri": "file:///home/me/p/a%20b%C3%A9#L3", "name": "x"},
            {"type": "resource", "resource": {"uri": "https://x/home/me/p", "text": ""}},
        ],
        "rawInput": {"path": "/home/me/p"},
        "_meta": {"path": "/home/me/p"},
        "path": "/home/me/project",
    }
    found = map_paths(message, moved.to_there)
    assert found == {
        **message,
        "cwd": "/workspace",
        "additionalDirectories": ["/workspace/a", "/else"],
        "prompt": [
            message["prompt"][0],
            {"type": "resource_link", "uri": "file:///workspace/a%20b%C3%A9#L3", "name": "x"},
            message["prompt"][2],
        ],
    }
    assert map_paths(found, moved.to_here) == {**message, "cwd": "/home/me/p"}
    assert map_paths(message, PathMap("/none", "/other").to_there) is message


def test_a_directory_of_the_workspace_is_meant_as_it_is() -> None:
    assert map_for("/workspace/sub", "/workspace") == SAME_PATHS
    assert map_for("/home/me/", "/workspace") == PathMap("/home/me", "/workspace")
    assert PathMap("/", "/workspace").to_there("/a") == "/workspace/a"
    assert PathMap("/", "/workspace").to_here("/workspace/a") == "/a"
    assert not is_inside("/workspace/../etc", "/workspace")
    assert is_inside("/a", "/")


def test_the_agent_is_told_what_the_proxy_answers() -> None:
    given = {"protocolVersion": 1, "clientCapabilities": {"fs": {"_meta": 1}, "x": 2}, "_meta": 3}
    assert with_client_methods(given) == {
        **given,
        "clientCapabilities": {
            "fs": {"_meta": 1, "readTextFile": True, "writeTextFile": True},
            "terminal": True,
            "x": 2,
        },
    }
    server = {"name": "bascule", "command": "x"}
    taken = [{"name": "bascule"}, {"name": "bascule-2"}]
    assert with_mcp_server({"mcpServers": taken}, server)["mcpServers"] == [
        *taken,
        {"name": "bascule-3", "command": "x"},
    ]


def test_lines_are_split_and_bounded() -> None:
    splitter = LineSplitter(limit=10)
    assert splitter.feed(b"ab") == []
    assert splitter.feed(b"c\r\n\n  \nde\nf") == [b"abc", b"de"]
    assert splitter.feed(b"123456789") == []  # the tenth byte is "f"
    with pytest.raises(MessageTooLarge, match="10 bytes"):
        splitter.feed(b"0")


async def test_an_outbox_keeps_the_order_and_is_bounded() -> None:
    written: list[bytes] = []
    may_write = asyncio.Event()

    async def write(data: bytes) -> None:
        await may_write.wait()
        written.append(data)

    outbox = LineOutbox(write, "The client", limit=10)
    running = asyncio.create_task(outbox.run())
    outbox.put(b"12345")
    outbox.put(b"67890")
    with pytest.raises(QuotaExceeded, match="The client does not read"):
        outbox.put(b"x")
    waiting = asyncio.create_task(outbox.wait_until_empty())
    may_write.set()
    await waiting
    await outbox.wait_for_room()
    assert written == [b"12345\n", b"67890\n"]
    running.cancel()


def test_the_newest_output_is_kept_between_characters() -> None:
    tail = OutputTail(4)
    tail.add("aé€".encode())
    assert (tail.text(), tail.is_truncated) == ("€", True)
    tail.add(b"\xff12")
    assert tail.text() == "\ufffd12"
    nothing = OutputTail(0)
    nothing.add(b"x")
    assert (nothing.text(), nothing.is_truncated) == ("", True)


def test_a_command_without_arguments_may_be_a_line_of_bash() -> None:
    def argv(**params: object) -> list[str]:
        return list(TerminalRequest.of(params, cwd="/w").argv)

    assert argv(command="ls") == ["ls"]
    assert argv(command="ls -l | wc") == ["bash", "-c", "ls -l | wc"]
    assert argv(command="a b", args=["c d"]) == ["a b", "c d"]
    for wrong in (
        {"command": ""},
        {"command": "a", "args": "b"},
        {"command": "a", "env": [{"value": 1}]},
        {"command": "a", "outputByteLimit": -1},
        {"command": "a", "cwd": 7},
    ):
        with pytest.raises(InvalidRequest):
            argv(**wrong)
