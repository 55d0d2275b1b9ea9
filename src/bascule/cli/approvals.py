"""`bascule approvals`: list the questions of windows and sessions, and answer them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import click

from bascule.core.errors import UsageError
from bascule.core.printable import one_line, printable

from .help import CommandGroup
from .hub_target import HubTarget, HubUrl, use_hub
from .signatures import CommandArgument, CommandOption
from .terminal import Cell, stdout

_SHORT = 8
_COLOURS = {"allow": "green", "ask": "yellow", "deny": "red"}

approvals = CommandGroup(
    help="List the actions of agents that wait for approval, in windows and sessions.\n\nNeeds "
    "the admin token: BASCULE_TOKEN, or the token of the hub on this machine.",
    invoke_without_command=True,
)

AsJson = Annotated[bool, CommandOption("--json", help="Print the result as JSON.")]
Which = Annotated[
    str,
    CommandArgument(
        metavar="ID",
        help="Id of the waiting action, as `bascule approvals` lists it, or its first characters.",
    ),
]


class PersonsAnswer(StrEnum):
    """The answers to a question. Each question lists the answers that it allows."""

    ONCE = "once"
    ALWAYS = "always"
    WORKSPACE = "workspace"
    DENY = "deny"


@approvals.group_callback
def list_(context: click.Context, hub: HubUrl = None, as_json: AsJson = False) -> int:
    if context.invoked_subcommand is not None:
        return 0
    found = asyncio.run(_questions(use_hub(hub, say=not as_json)))
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        _show_list(found)
    return 0


@approvals.subcommand()
def show(which: Which, hub: HubUrl = None, as_json: AsJson = False) -> int:
    """Show a waiting action in full, why it needs approval, and the possible answers."""
    found = _chosen(asyncio.run(_questions(use_hub(hub, say=not as_json))), which)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        _show(found)
    return 0


@approvals.subcommand()
def answer(
    which: Which,
    answer: Annotated[
        PersonsAnswer,
        CommandArgument(
            metavar="ANSWER",
            help="once: allow this action. always: allow this action and add the proposed rules. "
            "workspace: allow all actions of this agent in the window's workspace. deny: refuse "
            "this action.",
        ),
    ],
    hub: HubUrl = None,
) -> int:
    """Allow or deny a waiting action. If somebody also answers on the hub's page or in the window,
    the first answer counts."""
    asyncio.run(_answer(use_hub(hub), which, answer.value))
    return 0


async def _questions(target: HubTarget) -> Sequence[Mapping[str, Any]]:
    from bascule.link.hub_calls import HubCalls

    with target.explaining_unreachable_hub():
        async with HubCalls(target.url, target.token) as calls:
            return await calls.approvals()


async def _answer(target: HubTarget, which: str, answer: str) -> None:
    from bascule.link.hub_calls import HubCalls

    with target.explaining_unreachable_hub():
        async with HubCalls(target.url, target.token) as calls:
            found = _chosen(await calls.approvals(), which)
            await calls.answer(_place_id(found), str(found["id"]), answer)
    click.echo(f"Answered {one_line(str(found['id'])[:_SHORT])}: {answer}")


def _chosen(found: Sequence[Mapping[str, Any]], which: str) -> Mapping[str, Any]:
    """The question whose id begins with `which`. Raises `UsageError` unless there is one."""
    matching = [each for each in found if str(each.get("id")).startswith(which)]
    if len(matching) != 1:
        count = "No waiting action has" if not matching else f"{len(matching)} waiting actions have"
        raise UsageError(
            f"{count} an id that begins with {which!r}; `bascule approvals` lists them"
        )
    return matching[0]


def _place_id(question: Mapping[str, Any]) -> str:
    return str(question.get("window_id") or question.get("session_id"))


def _show_list(found: Sequence[Mapping[str, Any]]) -> None:
    terminal = stdout()
    if not found:
        terminal.print("No action waits for approval.")
        return
    titles = ("ID", "AGENT", "WHERE", "WANTS TO", "SECONDS LEFT")
    rows: list[Sequence[Cell]] = [[(title, "bold") for title in titles]]
    rows += [
        [
            one_line(str(each.get("id"))[:_SHORT]),
            one_line(str(each.get("agent"))),
            _place_name(each),
            one_line(str(each.get("summary"))),
            _seconds_left(each),
        ]
        for each in found
    ]
    terminal.print_table(rows, fold=(3,))


def _show(question: Mapping[str, Any]) -> None:
    terminal = stdout()
    agent, kind = (one_line(str(question.get(name))) for name in ("agent", "kind"))
    terminal.print(f"{agent} wants to {kind} in {_place_name(question)}:")
    terminal.print(printable(str(question.get("detail") or question.get("summary"))))
    for warning in question.get("warnings") or ():
        terminal.print(printable(str(warning)))
    for part in question.get("parts") or ():
        verdict = str(part.get("verdict"))
        text = f"  {verdict:5}  {one_line(str(part.get('text')))}"
        terminal.print(terminal.styled(text, _COLOURS.get(verdict, "")))
        terminal.print(f"         {one_line(str(part.get('reason')))}")
    rules = [one_line(str(each.get("text"))) for each in question.get("proposals") or ()]
    if rules:
        terminal.print(f"`always` adds the rules: {', '.join(rules)}")
    choices = ", ".join(map(str, question.get("choices") or ("once", "workspace", "deny")))
    terminal.print(f"Answers: {one_line(choices)}")


def _place_name(question: Mapping[str, Any]) -> str:
    is_window = bool(question.get("window_id"))
    return f"{'window' if is_window else 'session'} {one_line(_place_id(question)[:_SHORT])}"


def _seconds_left(question: Mapping[str, Any]) -> str:
    try:
        expires = datetime.fromisoformat(str(question.get("expires")))
        return str(max(0, round((expires - datetime.now(UTC)).total_seconds())))
    except (ValueError, TypeError):
        return "-"
