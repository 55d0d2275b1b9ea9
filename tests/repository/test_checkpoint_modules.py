"""The VS Code extension contains exactly the modules that its checkpoint worker imports."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LISTED = "extension/checkpoint_modules.json"
_IMPORT = """
import sys
sys.path.insert(0, sys.argv[1])
import bascule.checkpoints._worker_main, bascule.checkpoints.worker
for name, module in sys.modules.items():
    if name.split(".")[0] == "bascule":
        print(module.__file__)
"""


def test_the_worker_imports_what_the_extension_contains(tmp_path: Path) -> None:
    listed = json.loads((ROOT / _LISTED).read_text())
    for each in listed:
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "src" / each, tmp_path / each)
    # -S: without other packages, as with a Python that has nothing installed.
    command = [sys.executable, "-I", "-S", "-c", _IMPORT, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    imported = {str(Path(each).relative_to(tmp_path)) for each in done.stdout.splitlines()}
    assert imported == set(listed)
