"""A language server in place of `gopls`, whose code actions do what tests need. It is not a real
one, because no real server sends several edits, or fails after its edit, when a test wants it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

_SCRIPT = r"""#!{python}
import json, sys

LOG = open({log!r}, "a")


def send(message):
    body = json.dumps({{"jsonrpc": "2.0", **message}}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


def receive():
    size = 0
    while line := sys.stdin.buffer.readline().strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            size = int(value)
    return json.loads(sys.stdin.buffer.read(size)) if size else None


def edit(uri, line, start, end, text):
    place = {{"start": {{"line": line, "character": start}}}}
    place["end"] = {{"line": line, "character": end}}
    return {{"changes": {{uri: [{{"range": place, "newText": text}}]}}}}


def action(title, uri, arguments=(), **more):
    command = {{"title": title, "command": title, "arguments": [uri, *arguments]}}
    return {{"title": title, "command": command, **more}}


def apply(found):
    send({{"id": "edit", "method": "workspace/applyEdit", "params": {{"edit": found}}}})
    receive()


def answer(method, params):
    if method == "initialize":
        return {{"capabilities": {{
            "codeActionProvider": True, "diagnosticProvider": {{}}, "hoverProvider": True,
            "executeCommandProvider": {{"commands": ["hang", "fail", "two edits", "overlap"]}},
        }}}}
    if method == "textDocument/diagnostic":
        return {{"items": []}}
    if method == "textDocument/hover":
        return {{"contents": "hovered"}}
    if method == "textDocument/codeAction":
        uri = params["textDocument"]["uri"]
        first = edit(uri, 0, 0, 3, "ONE")
        return [action("hang", uri, edit=first), action("fail", uri, edit=first),
                action("two edits", uri), action("overlap", uri)]
    if method == "workspace/executeCommand":
        uri = params["arguments"][0]
        if params["command"] == "two edits":
            apply(edit(uri, 0, 0, 3, "FIRST"))
            apply(edit(uri, 1, 0, 3, "SECOND"))
        elif params["command"] == "overlap":
            apply(edit(uri, 0, 0, 3, "FIRST"))
            apply(edit(uri, 0, 1, 2, "SECOND"))
    return None


while (message := receive()) is not None:
    method, params = message.get("method"), message.get("params")
    print(json.dumps([method, params]), file=LOG, flush=True)
    if "id" not in message or (params or {{}}).get("command") == "hang":
        continue
    if (params or {{}}).get("command") == "fail":
        send({{"id": message["id"], "error": {{"code": 1, "message": "it failed"}}}})
    else:
        send({{"id": message["id"], "result": answer(method, params)}})
"""


class ScriptedServer:
    """Installs the program in `directory/bin`, and reads what the server received."""

    def __init__(self, directory: Path) -> None:
        self.programs = directory / "bin"
        self._log = directory / "received"
        self.programs.mkdir()
        program = self.programs / "gopls"
        program.write_text(_SCRIPT.format(python=sys.executable, log=str(self._log)))
        program.chmod(0o755)

    def received(self, method: str) -> list[str]:
        """Names of the files in all messages of a method about one document."""
        messages = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [
            Path(params["textDocument"]["uri"]).name
            for found, params in messages
            if found == method
        ]
