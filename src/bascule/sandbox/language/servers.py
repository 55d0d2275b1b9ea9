"""The language servers that a sandbox can use, and how to find them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Final, Literal

LANGUAGE_ACTIONS: Final = frozenset(
    {
        *("language", "rename_symbol", "apply_code_action", "format", "organize_imports"),
        *("diagnostics", "symbols"),
    }
)
"""Kinds of actions that language servers execute. Their classes are imported on first use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProgram:
    """A language server: its program, and what is special about it."""

    program: str
    arguments: Sequence[str] = ()
    languages: Mapping[str, str]
    """Language ids by suffix of the file name."""
    project_files: frozenset[str] = frozenset()
    """Names of other files whose changes the server needs to know."""
    install: str
    """Command that installs it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Its `initializationOptions`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Answers to its requests for settings, by section."""
    ready: Literal["at once", "message", "status"] = "at once"
    """When it gives complete answers: at once, because requests wait until it has loaded the
    project; after the log message `ready_message`; or when it reports the status `quiescent`."""
    ready_message: str = ""
    """Regular expression."""
    has_tsserver: bool = False
    """Whether it passes requests on to TypeScript's server."""


_PYTHON: Final = {".py": "python", ".pyi": "python"}
_PYTHON_PROJECT: Final = frozenset({"pyproject.toml", "pyrightconfig.json"})
# Pyright's own level. Basedpyright's would report hundreds of problems that most projects accept.
# A project's own configuration has precedence.
_PYTHON_SETTINGS: Final = {"analysis": {"typeCheckingMode": "standard"}}
_FOUND_FILES: Final = r"^Found \d+ source files?|^No source files found"

SERVERS: Final[Sequence[ServerProgram]] = (
    ServerProgram(
        program="basedpyright-langserver",
        arguments=("--stdio",),
        languages=_PYTHON,
        project_files=_PYTHON_PROJECT,
        install="pip install basedpyright",
        settings={"basedpyright": _PYTHON_SETTINGS},
        ready="message",
        ready_message=_FOUND_FILES,
    ),
    ServerProgram(
        program="pyright-langserver",
        arguments=("--stdio",),
        languages=_PYTHON,
        project_files=_PYTHON_PROJECT,
        install="npm install --global pyright",
        ready="message",
        ready_message=_FOUND_FILES,
    ),
    ServerProgram(
        program="typescript-language-server",
        arguments=("--stdio",),
        languages={
            ".ts": "typescript",
            ".mts": "typescript",
            ".cts": "typescript",
            ".js": "javascript",
            ".mjs": "javascript",
            ".cjs": "javascript",
            ".tsx": "typescriptreact",
            ".jsx": "javascriptreact",
        },
        project_files=frozenset({"tsconfig.json", "jsconfig.json", "package.json"}),
        install="npm install --global typescript-language-server typescript@5",
        options={
            # A second server that knows one file only would answer while the project is loading.
            "tsserver": {"useSyntaxServer": "never"},
            "disableAutomaticTypingAcquisition": True,  # it would download packages
            "hostInfo": "bascule",
        },
        has_tsserver=True,
    ),
    ServerProgram(
        program="gopls",
        languages={".go": "go"},
        project_files=frozenset({"go.mod", "go.work", "go.sum"}),
        install="go install golang.org/x/tools/gopls@latest",
    ),
    ServerProgram(
        program="rust-analyzer",
        languages={".rs": "rust"},
        project_files=frozenset({"Cargo.toml", "Cargo.lock", "rust-project.json"}),
        install="rustup component add rust-analyzer",
        ready="status",
    ),
)
"""In order of preference for a language."""


@dataclass(frozen=True, slots=True)
class InstalledServer:
    server: ServerProgram
    path: str
    """Path of the program."""


def find_server(suffix: str, path: str) -> InstalledServer | None:
    """The first installed server for files with this suffix. `path`: directories, as in PATH."""
    for server in servers_for(suffix):
        # Programs of the workspace itself, such as those in node_modules, are never used.
        if found := _which(server.program, path):
            return InstalledServer(server, found)
    return None


def servers_for(suffix: str) -> list[ServerProgram]:
    return [each for each in SERVERS if suffix in each.languages]


def suffix_of(path: str) -> str:
    return PurePath(path).suffix.lower()


def installed_languages(path: str) -> frozenset[str]:
    """Language ids for which a server is installed."""
    return frozenset(
        language
        for each in SERVERS
        if _which(each.program, path)
        for language in each.languages.values()
    )


def known_languages() -> list[str]:
    return sorted({language for each in SERVERS for language in each.languages.values()})


def _which(program: str, path: str) -> str | None:
    """The path of an installed program."""
    found = shutil.which(program, path=path)
    if found is None or Path(found).resolve().name != "rustup":
        return found
    # rustup has a link for each program of Rust, also for those that are not installed.
    toolchains = Path(found).parents[2] / ".rustup" / "toolchains"
    return found if any(toolchains.glob(f"*/bin/{program}")) else None
