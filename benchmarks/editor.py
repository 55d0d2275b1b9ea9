"""What a window needs that is not Python: VS Code, a browser, our extension and the probe.

Found, built and packed here, in the harness, because a worker's home is empty.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

PROBE = Path(__file__).with_name("probe")


class EditorMissing(Exception):
    """There can be no window here; the message says why, for the report."""


@dataclass(frozen=True, slots=True)
class Editor:
    """Four paths, as a worker is handed them."""

    code_server: Path
    """The directory of its installation."""
    extension: Path
    probe: Path
    chromium: Path

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(map(str, astuple(self)))


def prepare(root: Path, *, install: bool) -> Editor:
    """Everything, up to date; what is not on this machine is installed first if that is allowed."""
    if install:
        found = _last_line([root / "scripts/editor", "--with-browser"], root)
    else:
        found = _last_line([sys.executable, "-m", "bascule", "editor", "where"], root)
    chromium = shutil.which("chromium")
    if chromium is None:
        raise EditorMissing("there is no Chromium; a run without --quick installs it")
    extension = root / _last_line([root / "scripts/vsix"], root)
    probe = pack_probe(root, root / ".bench")
    return Editor(Path(found), extension, probe, Path(chromium))


def pack_probe(root: Path, directory: Path) -> Path:
    """`probe/`, bundled with the socket library of our extension, as a package VS Code installs."""
    directory.mkdir(exist_ok=True)
    bundle = directory / "probe.js"
    modules = root / "extension" / "node_modules"
    flags = ("--bundle", "--platform=node", "--target=node20", "--external:vscode")
    _last_line(
        [modules / ".bin/esbuild", PROBE / "main.js", *flags, f"--outfile={bundle}"],
        root,
        NODE_PATH=str(modules),
    )
    package = directory / "probe.vsix"
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
        manifest = (PROBE / "package.json").read_text()
        archive.writestr("[Content_Types].xml", CONTENT_TYPES)
        archive.writestr("extension.vsixmanifest", vsix_manifest(json.loads(manifest)))
        archive.writestr("extension/package.json", manifest)
        archive.write(bundle, "extension/main.js")
    return package


def vsix_manifest(package: Mapping[str, str]) -> str:
    """What a package says of itself outside: who made it, and where its own manifest lies."""
    identity = (
        f'Id="{package["name"]}" Version="{package["version"]}" Publisher="{package["publisher"]}"'
    )
    return MANIFEST.format(
        identity=identity, name=package["displayName"], description=package["description"]
    )


CONTENT_TYPES = """\
<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
  <Default Extension=".json" ContentType="application/json"/>
  <Default Extension=".js" ContentType="application/javascript"/>
  <Default Extension=".vsixmanifest" ContentType="text/xml"/>
</Types>
"""
MANIFEST = """\
<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" {identity}/>
    <DisplayName>{name}</DisplayName>
    <Description>{description}</Description>
  </Metadata>
  <Installation>
    <InstallationTarget Id="Microsoft.VisualStudio.Code"/>
  </Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json"/>
  </Assets>
</PackageManifest>
"""


def _last_line(command: Sequence[str | Path], root: Path, **environment: str) -> str:
    """Of what it printed. The scripts are told our Python, so that they do not set up another."""
    env = {**os.environ, "PYTHON": sys.executable, **environment}
    try:
        done = subprocess.run(
            command, cwd=root, env=env, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise EditorMissing(f"{command[0]} cannot be run: {error.strerror}") from None
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise EditorMissing(words[-1] if words else f"{command[0]} ended with {done.returncode}")
    return next(iter(reversed(done.stdout.strip().splitlines())), "")
