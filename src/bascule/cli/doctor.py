"""`bascule doctor`: check this machine or a deployment, and advise how to fix problems."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import click

from bascule.core.errors import UsageError
from bascule.core.printable import printable

from .machine import Finding, examine
from .signatures import CommandArgument, CommandOption
from .terminal import Cell, stdout

if TYPE_CHECKING:
    from .deployment.checks import Check

_MARKS: Final = {
    "ok": ("✓", "green"),
    "missing": ("✗", "red"),
    "failed": ("✗", "red"),
    "limited": ("○", "yellow"),
    "skipped": ("·", "dim"),
}
_ASCII_MARKS: Final = str.maketrans("✓✗○·", "+x--")
"""ASCII replacements, for an output that can encode only ASCII."""


def doctor(
    url: Annotated[
        str | None,
        CommandArgument(
            help="With --cloud: address of the hub. [default: the hub on this machine]"
        ),
    ] = None,
    cloud: Annotated[
        bool,
        CommandOption(
            "--cloud",
            help="Check a deployed hub from the outside; creates two sessions and removes them.",
        ),
    ] = False,
    as_json: Annotated[bool, CommandOption("--json", help="Print the results as JSON.")] = False,
) -> int:
    """Check this machine; with --cloud, check a deployed hub.

    Exits with 1 if a required check fails. With --cloud, `doctor` connects to the address that
    users open, with the token in BASCULE_TOKEN. It checks TLS, the sign-in and its cookie, the
    isolation of sessions, a web app in a session, and WebSockets. If Chromium is installed on this
    machine, it also checks VS Code in a browser.
    """
    if cloud:
        return _cloud(url, as_json=as_json)
    if url is not None:
        raise UsageError("the argument URL needs --cloud")
    findings = examine()
    broken = any(finding.state == "missing" for finding in findings)
    if as_json:
        report = {"ok": not broken, "findings": [asdict(finding) for finding in findings]}
        click.echo(json.dumps(report, indent=2))
    else:
        _show(findings)
    return 1 if broken else 0


# A deployment ----------------------------------------------------------------------------------


def _cloud(url: str | None, *, as_json: bool) -> int:
    from .address import with_scheme
    from .hub_target import find_hub

    target = find_hub(url)
    address = with_scheme(url) if url else _public_url(target.url)
    checks = asyncio.run(_examine(address, target.token, is_shown=not as_json))
    is_ok = not any(check.state == "failed" for check in checks)
    if as_json:
        report = {"ok": is_ok, "url": address, "checks": [asdict(check) for check in checks]}
        click.echo(json.dumps(report, indent=2))
    return 0 if is_ok else 1


def _public_url(url: str) -> str:
    """The public address in this machine's hub settings; `url` if there is none."""
    import os

    from .hub_settings import load

    return load(None, os.environ, {}).public_url.rstrip("/") or url


async def _examine(url: str, token: str, *, is_shown: bool) -> list[Check]:
    from .deployment.examine import NAMES, Examination
    from .stage_progress import show_stages

    terminal = stdout()
    checks: list[Check] = []
    if is_shown:
        terminal.print(f"Checking {terminal.styled(url, 'bold')}")
    with show_stages(only_last=True) as stages:
        async with aclosing(Examination(url, token, on_stage=stages).checks()) as found:
            async for check in found:
                checks.append(check)
                if is_shown:
                    name = check.name.ljust(max(map(len, NAMES)))
                    with stages.hidden():
                        _show_rows([(check.state, name, check.found, check.advice)])
    if is_shown:
        terminal.print(_cloud_verdict(checks))
    return checks


def _cloud_verdict(checks: Sequence[Check]) -> str:
    failed = [check.name for check in checks if check.state == "failed"]
    if failed:
        return f"{stdout().styled('Failed:', 'red')} {', '.join(failed)}."
    if any(check.state == "limited" for check in checks):
        return "Passed, as far as it could be checked from here."
    return "All checks passed."


# This machine ----------------------------------------------------------------------------------


def _show(findings: Sequence[Finding]) -> None:
    _show_rows([(each.state, each.name, each.found, each.advice) for each in findings])
    stdout().print(_verdict(findings))


def _show_rows(rows: Sequence[tuple[str, str, str, str]]) -> None:
    """Print rows of state, name, finding and advice. The advice is below the finding."""
    table: list[Sequence[Cell]] = []
    for state, name, found, advice in rows:
        table.append([_mark(*_MARKS[state]), name, printable(found)])
        if advice:
            table.append(["", "", (printable(advice), "dim")])
    stdout().print_table(table, gap=1, fold=[2])


def _verdict(findings: Sequence[Finding]) -> str:
    missing = [finding.name for finding in findings if finding.state == "missing"]
    limited = [finding.name for finding in findings if finding.state == "limited"]
    if missing:
        text = stdout().styled("Bascule cannot run here. Missing:", "red")
        return f"{text} {', '.join(missing)}."
    if limited:
        return f"Ready. Optional, not available: {', '.join(limited)}."
    return "Ready."


def _mark(mark: str, style: str) -> Cell:
    try:
        mark.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        mark = mark.translate(_ASCII_MARKS)
    return mark, style
