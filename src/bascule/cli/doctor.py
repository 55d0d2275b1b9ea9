"""`bascule doctor`: what this machine has, what it lacks, and how to get it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from .machine import Finding, examine

_MARKS = {"ok": "[green]✓[/]", "missing": "[red]✗[/]", "limited": "[yellow]○[/]"}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> int:
    """Check this machine; exits 1 when something required is missing."""
    findings = examine()
    broken = any(finding.state == "missing" for finding in findings)
    if as_json:
        report = {"ok": not broken, "findings": [asdict(finding) for finding in findings]}
        typer.echo(json.dumps(report, indent=2))
    else:
        _show(findings)
    return 1 if broken else 0


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
        table.add_row(_MARKS[finding.state], escape(finding.name), text)
    console = Console(highlight=False)
    console.print(table)
    console.print(_verdict(findings))


def _verdict(findings: Sequence[Finding]) -> str:
    missing = [finding.name for finding in findings if finding.state == "missing"]
    limited = [finding.name for finding in findings if finding.state == "limited"]
    if missing:
        return f"[red]Bascule cannot work here yet:[/] {', '.join(missing)}."
    if limited:
        return f"Ready. What would make it better: {', '.join(limited)}."
    return "Ready."
