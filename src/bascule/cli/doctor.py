"""`bascule doctor`: what this machine, or a deployment, has and lacks, and how to get it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bascule.core.errors import UsageError
from bascule.core.printable import printable

from .machine import Finding, examine

if TYPE_CHECKING:
    from rich.console import RenderableType

    from .deployment.checks import Check

_MARKS = {"ok": "[green]✓[/]", "missing": "[red]✗[/]", "limited": "[yellow]○[/]"}
_CHECK_MARKS = {**_MARKS, "failed": _MARKS["missing"], "skipped": "[dim]·[/]"}
_PLAIN: Final = str.maketrans("✓✗○·", "+x--")
"""For a terminal or pipe that has no more than ASCII."""


def doctor(
    url: Annotated[
        str | None,
        typer.Argument(help="With --cloud: address of the hub. [default: the hub on this machine]"),
    ] = None,
    cloud: Annotated[
        bool,
        typer.Option(
            "--cloud",
            help="Check a deployed hub from the outside; creates two sessions and removes them.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> int:
    """Check this machine, or a deployed hub with --cloud.

    Exits with 1 if a required check fails. --cloud connects to the address that users open, with
    the token in BASCULE_TOKEN. It checks TLS, the sign-in and its cookie, the isolation of
    sessions, a web app in a session, WebSockets and, if Chromium is installed here, VS Code in a
    browser.
    """
    if cloud:
        return _cloud(url, as_json=as_json)
    if url is not None:
        raise UsageError("the argument URL needs --cloud")
    findings = examine()
    broken = any(finding.state == "missing" for finding in findings)
    if as_json:
        report = {"ok": not broken, "findings": [asdict(finding) for finding in findings]}
        typer.echo(json.dumps(report, indent=2))
    else:
        _show(findings)
    return 1 if broken else 0


# A deployment ----------------------------------------------------------------------------------


def _cloud(url: str | None, *, as_json: bool) -> int:
    from .address import with_scheme
    from .hub_target import find_hub

    place = find_hub(url)
    address = with_scheme(url) if url else _public(place.url)
    checks = asyncio.run(_examine(address, place.token, is_shown=not as_json))
    is_ok = not any(check.state == "failed" for check in checks)
    if as_json:
        report = {"ok": is_ok, "url": address, "checks": [asdict(check) for check in checks]}
        typer.echo(json.dumps(report, indent=2))
    return 0 if is_ok else 1


def _public(url: str) -> str:
    """Where the hub of this machine says people find it, if its settings are here."""
    import os

    from .hub_settings import load

    return load(None, os.environ, {}).public_url.rstrip("/") or url


async def _examine(url: str, token: str, *, is_shown: bool) -> list[Check]:
    from rich.console import Console

    from .deployment.examine import NAMES, Examination
    from .stage_progress import show_stages

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 1000
    checks: list[Check] = []
    if is_shown:
        console.print(f"Checking [bold]{url}[/]")
    with show_stages(only_last=True) as say:
        async with aclosing(Examination(url, token, on_stage=say).checks()) as found:
            async for check in found:
                checks.append(check)
                if is_shown:
                    console.print(_row(check, max(map(len, NAMES))))
    if is_shown:
        console.print(_cloud_verdict(checks))
    return checks


def _row(check: Check, width: int) -> RenderableType:
    from rich.markup import escape
    from rich.table import Table

    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column(no_wrap=True, min_width=width)
    row.add_column(overflow="fold")
    text = escape(printable(check.found))
    if check.advice:
        text += f"\n[dim]{escape(printable(check.advice))}[/]"
    row.add_row(_mark(_CHECK_MARKS[check.state]), check.name, text)
    return row


def _cloud_verdict(checks: Sequence[Check]) -> str:
    failed = [check.name for check in checks if check.state == "failed"]
    if failed:
        return f"[red]Failed:[/] {', '.join(failed)}."
    if any(check.state == "limited" for check in checks):
        return "Passed, as far as it could be checked from here."
    return "All checks passed."


# This machine ----------------------------------------------------------------------------------


def _show(findings: Sequence[Finding]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        text = escape(finding.found)
        if finding.advice:
            text += f"\n[dim]{escape(finding.advice)}[/]"
        table.add_row(_mark(_MARKS[finding.state]), escape(finding.name), text)
    console = Console(highlight=False)
    console.print(table)
    console.print(_verdict(findings))


def _verdict(findings: Sequence[Finding]) -> str:
    missing = [finding.name for finding in findings if finding.state == "missing"]
    limited = [finding.name for finding in findings if finding.state == "limited"]
    if missing:
        return f"[red]Bascule cannot run here. Missing:[/] {', '.join(missing)}."
    if limited:
        return f"Ready. Optional, not available: {', '.join(limited)}."
    return "Ready."


def _mark(mark: str) -> str:
    try:
        mark.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return mark.translate(_PLAIN)
    return mark
