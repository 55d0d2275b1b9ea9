"""The extension's generated parts are those of this version."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import bascule


@pytest.mark.slow
@pytest.mark.editor
def test_the_event_types_of_the_extension_match_the_schema(project: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(project / "src")}
    script = [str(project / "scripts/protocol"), "--check"]
    done = subprocess.run(script, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_extension_version_is_the_package_version(project: Path) -> None:
    manifest = json.loads((project / "extension/package.json").read_text())
    assert manifest["version"] == bascule.__version__


def test_every_extension_setting_has_machine_scope(project: Path) -> None:
    manifest = json.loads((project / "extension/package.json").read_text())
    settings = manifest["contributes"]["configuration"]["properties"]
    assert {name for name, each in settings.items() if each["scope"] != "machine"} == set()


def test_ids_in_the_extension_manifest_match_the_code(project: Path) -> None:
    manifest = json.loads((project / "extension/package.json").read_text())["contributes"]
    source = (project / "extension/src/manifest.ts").read_text()
    command = r': "((?:bascule|evolve)\.\w+)",'
    commands = re.findall(command, source.split("CommandId = {")[1].split("}")[0])
    names = re.findall(r'"([\w.]+)",', source.split("SettingNames")[1].split("]")[1])
    assert {each["command"] for each in manifest["commands"]} == set(commands)
    shared = re.findall(r'"([\w.]+)":', source.split("EvolveSettings {")[1].split("}")[0])
    ours = {f"bascule.{name}" for name in names} | {f"evolve.{name}" for name in shared}
    assert set(manifest["configuration"]["properties"]) == ours
    (provider,) = manifest["mcpServerDefinitionProviders"]
    assert f'MCP_PROVIDER = "{provider["id"]}"' in source


def test_the_lock_file_of_the_extension_contains_no_download_urls(project: Path) -> None:
    assert '"resolved"' not in (project / "extension/package-lock.json").read_text()


def test_every_built_file_of_the_extension_is_packaged(project: Path) -> None:
    built = re.findall(r'"(dist/[\w.-]+)"', (project / "extension/esbuild.mjs").read_text())
    packed = (project / "extension/.vscodeignore").read_text().splitlines()

    assert "dist/rules-batch.js" in built
    # A line is for a file, or for the files in a directory.
    places = {line.removeprefix("!").split("/bascule/")[0] for line in packed}
    assert [file for file in built if file not in places] == []


def test_the_extension_readme_links_to_nothing_in_the_repository(project: Path) -> None:
    """The packager refuses a relative link where it knows no repository to make it whole with."""
    text = (project / "extension/README.md").read_text()

    assert re.findall(r"\]\((?!https?://|#)([^)\s]+)", text) == []
