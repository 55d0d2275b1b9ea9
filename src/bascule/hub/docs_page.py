"""A page that lists the hub's REST calls. FastAPI's own pages load scripts from other sites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto }}
code {{ font-size: 0.95em }} td {{ padding: 0.3rem 1rem 0.3rem 0; vertical-align: top }}
</style>
<h1>{title} {version}</h1>
<p>Send <code>Authorization: Bearer TOKEN</code>; <code>bascule token</code> prints the admin token.
The machine-readable form is <a href="openapi.json">openapi.json</a>.</p>
<table>
{rows}
</table>
</html>
"""


def docs_page(schema: Mapping[str, Any]) -> str:
    """HTML for an OpenAPI document: every call and its description."""
    info = schema["info"]
    rows = "\n".join(_rows(schema["paths"]))
    return _PAGE.format(title=escape(info["title"]), version=escape(info["version"]), rows=rows)


def _rows(paths: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Iterator[str]:
    for path, methods in paths.items():
        for method, call in methods.items():
            description = escape(call.get("description") or call.get("summary", ""))
            name = f"{method.upper()} {path}"
            yield f"<tr><td><code>{escape(name)}</code></td><td>{description}</td></tr>"
