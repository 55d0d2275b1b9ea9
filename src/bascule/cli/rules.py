"""`bascule rules`: check rules for commands, and list those of a hub."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from bascule.core.errors import InvalidSetting, StorageFailed, UsageError
from bascule.core.printable import one_line, printable

from .help import CommandGroup
from .hub_target import HubUrl, use_hub
from .known_names import session_names
from .signatures import CommandArgument, CommandOption
from .user_dirs import config_dir

if TYPE_CHECKING:
    from bascule.link.sessions import SessionCalls
    from bascule.rules import CommandContext, Decision, Parser, Rules
    from bascule.rules.batch import Question
    from bascule.rules.rule_files import RuleFile

rules = CommandGroup(
    help="Test and list rules, which decide whether a command is allowed, needs approval or is "
    "denied.",
)

_STATUS = {"allow": 0, "ask": 3, "deny": 4}


class RuleEngine(StrEnum):
    """The implementation that decides: Python, or the VS Code extension."""

    PYTHON = "python"
    WINDOW = "window"


@rules.subcommand()
def check(
    command: Annotated[
        str | None, CommandArgument(help="The command text, as one argument. Nothing is run.")
    ] = None,
    rule_files: Annotated[
        list[Path] | None,
        CommandOption(
            "--rules",
            help="TOML file with your own rules; repeatable. "
            "[default: ~/.config/bascule/rules.toml if it exists]",
        ),
    ] = None,
    workspace_rules: Annotated[
        list[Path] | None,
        CommandOption(
            "--workspace-rules",
            help="TOML file with rules of a workspace. Such rules can deny a command or require "
            "approval, but not allow a command. Repeatable. "
            "[default: .vscode/bascule-rules.toml in --workspace if it exists]",
        ),
    ] = None,
    agent: Annotated[
        str | None, CommandOption(help="Apply the rules for this agent too. [default: none]")
    ] = None,
    workspace: Annotated[
        Path | None,
        CommandOption(
            metavar="DIR",
            help="Workspace folder, in which commands may write files. [default: --cwd]",
        ),
    ] = None,
    cwd: Annotated[
        Path | None,
        CommandOption(
            metavar="DIR",
            help="Directory in which the command would run. [default: the current directory]",
        ),
    ] = None,
    as_json: Annotated[bool, CommandOption("--json", help="Print the result as JSON.")] = False,
    batch: Annotated[
        Path | None,
        CommandOption(
            metavar="FILE",
            help="Check many commands instead: a file with one JSON object per line; - reads "
            "stdin. Prints one JSON line for each command.",
        ),
    ] = None,
    engine: Annotated[
        RuleEngine,
        CommandOption(
            help="Implementation to use with --batch. python: the code of sandboxes. window: the "
            "code of the VS Code extension (needs Node)."
        ),
    ] = RuleEngine.PYTHON,
) -> int:
    """Print whether rules allow a command, require approval (ask) or deny it, and why.

    The command is not run. A command that no rule matches needs approval. Exits with 0 for allow, 3
    for ask and 4 for deny; with 1 or 2 if rules cannot be read.

    With --batch, each line of the file is an object such as {"command": "git log", "allow":
    [["git", "log"]], "ask": [], "deny": [], "workspace": "/home/ann/project", "cwd":
    "/home/ann/project", "home": "/home/ann"}. Only `command` is required. The paths in this example
    are the defaults; by default there are no rules. Each printed line is an object such as
    {"verdict": "allow", "parts": [...]}. For an invalid line the verdict is "ask", and stderr has
    the reason. Symbolic links are not resolved. The exit code is 0.
    """
    if (command is None) == (batch is None):
        raise UsageError("give either one command text or --batch FILE")
    if batch is not None:
        if rule_files or workspace_rules or workspace or cwd:
            raise UsageError("the lines of --batch have rules and paths; leave those options out")
        return _check_batch(batch, engine)
    if engine is RuleEngine.WINDOW:
        raise UsageError("--engine window needs --batch FILE")
    from bascule.rules import Parser
    from bascule.rules.judge import judge
    from bascule.rules.rule_files import WORKSPACE_FILE

    parser = Parser()
    context = _context(workspace, cwd)
    own_files = _existing(config_dir() / "rules.toml") if rule_files is None else rule_files
    workspace_files = _existing(Path(context.workspace, WORKSPACE_FILE))
    given = _read_rules(
        own_files, workspace_files if workspace_rules is None else workspace_rules, agent, parser
    )
    decision = judge(command or "", given, context, parser.parse)
    _show(decision, as_json=as_json)
    return _STATUS[decision.verdict.value]


@rules.subcommand("test")
def try_file(
    file: Annotated[Path, CommandArgument(help="A TOML file with rules.")],
    is_workspace: Annotated[
        bool,
        CommandOption(
            "--workspace",
            help="Check FILE as the rules of a workspace, which may not contain [[allow]].",
        ),
    ] = False,
) -> int:
    """Check a file of rules, and test its examples.

    Examples are commands that the rules must match (`yes`) or must not match (`no`). If the file is
    not valid or an example fails, prints the line numbers and exits with 2.
    """
    from bascule.rules import Parser
    from bascule.rules.rule_files import RuleOwner, read_rule_file

    owner = RuleOwner.WORKSPACE if is_workspace else RuleOwner.PERSON
    read = read_rule_file(file, owner, Parser().parse)
    _warn(read)
    count = sum(len(table.rules) for table in read.tables)
    tried = sum(len(table.yes) + len(table.no) for table in read.tables)
    click.echo(printable(f"{file}: rules: {count}, examples that hold: {tried}"))
    return 0


@rules.subcommand("list")
def list_(
    session: Annotated[
        str | None,
        CommandArgument(
            metavar="SESSION",
            help="Name or id of a session, or the first characters of its id. Lists the rules that "
            "apply in this session, and how often each rule was used. [default: list the hub's "
            "rules]",
            autocompletion=session_names,
        ),
    ] = None,
    hub: HubUrl = None,
    as_json: Annotated[bool, CommandOption("--json", help="Print the result as JSON.")] = False,
) -> int:
    """List the rules for commands in sessions, with their origin and number of uses.

    Uses are counted from the start of the session's sandbox. Needs the admin token: BASCULE_TOKEN,
    or the token of the hub on this machine.
    """
    from .rule_list import show_rules
    from .session_calls import call_hub, find

    async def rules_of(calls: SessionCalls) -> Sequence[Mapping[str, Any]]:
        if session is None:
            return await calls.rules()
        return await calls.rules_in_use((await find(calls, session)).id)

    found = call_hub(use_hub(hub, say=not as_json), rules_of)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        show_rules(found)
    return 0


def _context(workspace: Path | None, cwd: Path | None) -> CommandContext:
    from bascule.rules import CommandContext

    here = (cwd or Path.cwd()).absolute()
    return CommandContext(
        workspace=str((workspace or here).absolute()),
        cwd=str(here),
        home=str(Path.home()),
        resolve_links=os.path.realpath,
    )


def _existing(file: Path) -> list[Path]:
    return [file] if file.exists() else []


def _read_rules(
    own_files: Sequence[Path], workspace_files: Sequence[Path], agent: str | None, parser: Parser
) -> Rules:
    from bascule.rules import Rules
    from bascule.rules.rule_files import RuleOwner, read_rule_file

    owners = {RuleOwner.PERSON: own_files, RuleOwner.WORKSPACE: workspace_files}
    found = Rules()
    for owner, paths in owners.items():
        for path in paths:
            read = read_rule_file(path, owner, parser.parse)
            _warn(read)
            found = found + read.rules(agent)
    return found


def _warn(read: RuleFile) -> None:
    for warning in read.warnings:
        click.echo(printable(f"Warning: {warning}"), err=True)


def _show(decision: Decision, *, as_json: bool) -> None:
    from bascule.rules.batch import encode_answer
    from bascule.rules.proposals import proposals

    if as_json:
        click.echo(encode_answer(decision))
        return
    click.echo(decision.verdict.value)
    for part in decision.parts:
        click.echo(f"  {part.verdict.value:5}  {one_line(part.text)}")
        origin = f" ({part.rule.origin})" if part.rule is not None and part.rule.origin else ""
        click.echo(printable(f"         {part.reason}{origin}"))
    for proposal in proposals(decision):
        click.echo(
            printable(f"A rule would allow a part of it: run = [{json.dumps(str(proposal.rule))}]")
        )


def _check_batch(file: Path, engine: RuleEngine) -> int:
    from bascule.rules.batch import encode_answer, refusal

    questions = [_question(line, number) for number, line in enumerate(_lines(file), start=1)]
    decide = _decide_here if engine is RuleEngine.PYTHON else _decide_in_window
    # `closing` ends the parser's threads here, also after the last answer.
    with closing(
        decide([each for each in questions if not isinstance(each, InvalidSetting)])
    ) as answers:
        for each in questions:
            if isinstance(each, InvalidSetting):
                click.echo(printable(f"Warning: {each}"), err=True)
                click.echo(encode_answer(refusal(each)))
            else:
                click.echo(next(answers))
    return 0


def _question(line: bytes, number: int) -> Question | InvalidSetting:
    """The question in a line, or the error if the line is invalid. One invalid line does not stop
    the others."""
    from bascule.rules.batch import decode_question

    try:
        return decode_question(line, number)
    except InvalidSetting as error:
        return error


def _decide_here(questions: Sequence[Question]) -> Generator[str]:
    """One answer for each question, in order. Each new text needs a parser process, so several
    texts are parsed at the same time."""
    from bascule.rules import Parser
    from bascule.rules.batch import encode_answer
    from bascule.rules.judge import judge

    thread_state = threading.local()

    def start_thread() -> None:
        thread_state.parser = Parser()

    def answer(question: Question) -> str:
        parse = thread_state.parser.parse
        return encode_answer(judge(question.command, question.rules, question.context, parse))

    with ThreadPoolExecutor(os.cpu_count(), initializer=start_thread) as pool:
        yield from pool.map(answer, questions)


def _decide_in_window(questions: Sequence[Question]) -> Generator[str]:
    from .window_rules import decide_in_window

    yield from decide_in_window([each.encode() for each in questions])


def _lines(file: Path) -> Sequence[bytes]:
    """The lines of a batch, without an empty last line. Only a newline ends a line of JSON."""
    try:
        text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise StorageFailed(f"{file}: cannot be read: {error.strerror}") from error
    return text.removesuffix(b"\n").split(b"\n") if text else []
