"""`python -m tests.fresh [TRIAL...]`: all trials, or those that are named."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

from bascule.cli.user_dirs import cache_dir

from .diary import say
from .trials import TRIALS, Ground

NEEDED = ("chroot", "debootstrap", "git", "npm", "setpriv", "unshare")


def main(names: list[str]) -> int:
    if os.geteuid() != 0:
        say("making a machine needs root")
        return 2
    if missing := [each for each in NEEDED if shutil.which(each) is None]:
        say(f"missing: {', '.join(missing)}")
        return 2
    if unknown := [each for each in names if each not in TRIALS]:
        say(f"there is no trial {unknown[0]}; there are {', '.join(TRIALS)}")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and the machines are removed
    ground = Ground(Path(__file__).parents[2], cache_dir())
    for name in names or TRIALS:
        say(f"== {name}")
        began = time.monotonic()
        TRIALS[name](ground)
        say(f"== {name}: passed, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
