"""An ACP agent without a model: each prompt has a JSON list of steps that it takes in order.

It uses the standard library only, so that any Python of a session can run it.
"""

import itertools
import json
import os
import subprocess
import sys
from typing import Any

ids = itertools.count(1)
opened: dict[str, Any] = {}
capabilities: dict[str, Any] = {}


def send(body: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **body}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    found: dict[str, Any] = json.loads(line)
    return found


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request and wait for its answer: its result, or {"error": …}."""
    number = f"agent-{next(ids)}"
    send({"id": number, "method": method, "params": params})
    while (answer := receive()).get("id") != number:
        if answer.get("method") == "session/cancel":
            send({"method": "$/cancel_request", "params": {"requestId": number}})
    return answer["result"] if "result" in answer else {"error": answer["error"]}


def say(session: str, text: str) -> None:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    send({"method": "session/update", "params": {"sessionId": session, "update": update}})


def take(session: str, step: dict[str, Any]) -> Any:
    match step:
        case {"ask": method, **rest}:
            return ask(method, {"sessionId": session, **rest.get("params", {})})
        case {"update": update}:
            params = {"sessionId": session, "update": update}
            return send({"method": "session/update", "params": params})
        case {"send": body}:
            return send(body)
        case {"raw": text}:
            sys.stdout.write(text + "\n")
            return sys.stdout.flush()
        case {"describe": _}:
            names = ("KEY", "HOME")
            return {
                "cwd": os.getcwd(),
                "env": {name: os.environ.get(name) for name in names},
                "opened": opened,
                "capabilities": capabilities,
            }
        case {"child": argv}:
            return {"pids": [os.getpid(), subprocess.Popen(argv).pid]}
        case {"exit": status}:
            sys.exit(status)
    raise ValueError(f"an unknown step: {step}")


def main() -> None:
    global capabilities, opened
    while True:
        message = receive()
        number, params = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case "initialize":
                capabilities = params["clientCapabilities"]
                result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
                send({"id": number, "result": {**result, "_meta": params.get("_meta")}})
            case "session/new":
                opened = params
                send({"id": number, "result": {"sessionId": f"s-{number}"}})
            case "session/load":
                opened = params
                send({"id": number, "result": {}})
            case "session/prompt":
                session = params["sessionId"]
                text = "".join(each.get("text", "") for each in params["prompt"])
                for step in json.loads(text[text.index("[{") : text.rindex("]") + 1]):
                    say(session, json.dumps(take(session, step)))
                send({"id": number, "result": {"stopReason": "end_turn"}})
            case "echo":
                send({"id": number, "result": params})
            case _ if number is not None and "method" in message:
                error = {"code": -32601, "message": "Method not found"}
                send({"id": number, "error": error})


main()
