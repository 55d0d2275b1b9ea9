"""Makes the README's animation of the demo: `python -m tests.fresh.pictures FILE`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from . import film
from .visitor import visitor

_SIZE: Final = (1200, 750)
_FOLDER: Final = "/home/ann/bakery"
"""What is seen has no name of anybody's machine in it."""
_UP: Final = f"""\
mount -t tmpfs -o mode=755 tmpfs /home && mkdir -p {_FOLDER} && cd {_FOLDER} &&
printf '# Bakery\\n\\nPrices, and what to do with them.\\n' >README.md &&
exec "$1" -m bascule up --working-dir . --no-prompt --no-browser
"""


@contextmanager
def bascule_up() -> Iterator[str]:
    """The address that `bascule up` prints in a folder of its own, while it is up."""
    with TemporaryDirectory(prefix="bsc-") as short:
        own = {"XDG_STATE_HOME": f"{short}/state", "XDG_RUNTIME_DIR": short, "BASCULE_PORT": "0"}
        kept = {name: value for name, value in os.environ.items() if "BASCULE" not in name}
        with subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", _UP, "sh", sys.executable],
            env={**kept, **own},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            try:
                yield _address(process.stderr)
            finally:
                process.terminate()
                process.communicate()


def _address(said: Iterator[str]) -> str:
    lines = []
    for line in said:
        lines.append(line)
        if found := re.search(r"(http://127\.0\.0\.1:\d+/sign-in\S+)", line):
            return found[1]
    raise AssertionError("".join(lines))


def main(file: Path) -> None:
    with bascule_up() as address, visitor(file.parent, size=_SIZE) as person:
        person.open(address)
        opening = film.still(person.page, 2.0)
        person.ask_for_demo()
        frames = film.shoot(person.page, lambda: person.is_done)
        person.watch_demo()
        film.save([opening, *frames, film.still(person.page, 5.0)], file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
