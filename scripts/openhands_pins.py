"""Print the versions in the lock file of OpenHands V0's wheel: `openhands_pins.py WHEEL`."""

from __future__ import annotations

import sys
import tomllib
import zipfile

with zipfile.ZipFile(sys.argv[1]) as wheel:
    lock = tomllib.loads(wheel.read("openhands/poetry.lock").decode())

for package in lock["package"]:
    if "main" not in package["groups"]:
        continue
    markers = package.get("markers", "")
    marker = markers.get("main", "") if isinstance(markers, dict) else markers
    print(f"{package['name']}=={package['version']}" + (f" ; {marker}" if marker else ""))
