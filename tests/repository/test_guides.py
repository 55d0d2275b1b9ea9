"""Guides: programs print what the comments beside them say, and what is named is there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bascule.cli import main
from bascule.cli.app import tree
from bascule.cli.hub_settings import load

GUIDE = Path(__file__).parents[2] / "docs/guides/python.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_guide_has_programs() -> None:
    assert PROGRAMS


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_guide_does_what_it_says(program: str, tmp_path: Path) -> None:
    promised = re.findall(r"print\(.*\)  # (.*)$", program, re.MULTILINE)
    assert promised

    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program.replace("/tmp", str(tmp_path))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == promised


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_the_guide_to_nginx_prints_a_configuration_with_its_certificate(tmp_path: Path) -> None:
    certificate, configuration, *_ = blocks_of("nginx.md")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", "-c", certificate + configuration]
    ran = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert "server_name hub.example;" in ran.stdout
    assert str(tmp_path / "fullchain.pem") in ran.stdout


def test_settings_in_the_container_guide_are_known(tmp_path: Path) -> None:
    page = (GUIDE.parent / "docker.md").read_text()
    (block,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "bascule.toml").write_text(block)

    settings = load(tmp_path / "bascule.toml", {}, {})

    assert settings.spawners == ("docker", "local")
    assert settings.docker_image
    assert settings.docker_engine


def test_vs_code_commands_and_settings_in_guides_exist_in_the_extension() -> None:
    manifest = json.loads((GUIDE.parents[2] / "extension/package.json").read_text())["contributes"]
    titles = {f"{each['category']}: {each['title']}" for each in manifest["commands"]}
    settings = set(manifest["configuration"]["properties"])
    for page in GUIDE.parent.glob("*.md"):
        text = " ".join(page.read_text().split())
        assert set(re.findall(r"\*\*((?:Bascule|Evolve): [^*]+)\*\*", text)) <= titles
        named = set(re.findall(r"`(bascule\.[a-z]\w+(?:\.\w+)*)`", text))
        assert {
            name for name in named if not name.endswith((".toml", ".conf", ".service"))
        } <= settings


PAGES = [GUIDE.parents[2] / "README.md", *sorted(GUIDE.parents[1].rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_programs_in_pages_import_what_they_use(page: Path) -> None:
    for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        command = ("ruff", "check", "--isolated", "--select=F821", "--quiet", "-")
        ran = subprocess.run(
            [sys.executable, "-m", *command],
            input=block,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout


def test_the_documented_mcp_client_settings_start_bascule_with_its_token() -> None:
    text = (GUIDE.parent / "mcp.md").read_text()
    (block,) = re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    mcp = tree("mcp").commands["mcp"]
    for server in json.loads(block)["mcpServers"].values():
        name, *arguments = server["args"]
        given = mcp.make_context(name, arguments).params
        assert bool(given["hub"]) == ("BASCULE_TOKEN" in server.get("env", {}))


def blocks_of(guide: str) -> list[str]:
    text = (GUIDE.parent / guide).read_text()
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_rules_that_the_guide_to_trust_shows_hold_and_explain_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (GUIDE.parent / "trust.md").read_text()
    (rules,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    command, _, promised = shown.partition("\n")
    workspace = tmp_path / "project"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    Path("mine.toml").write_text(rules)

    assert main(["rules", "test", "mine.toml"]) == 0
    capsys.readouterr()
    assert main(shlex.split(command.removeprefix("$ bascule "))) == 3
    assert capsys.readouterr().out == promised.replace("/home/ann/", f"{tmp_path}/")
