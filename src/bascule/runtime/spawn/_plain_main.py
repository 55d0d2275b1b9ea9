"""The first process of a plain sandbox. It holds the lock file; its children do not inherit
the lock."""

from __future__ import annotations

import os
import sys

from bascule.sandbox.session.__main__ import main

if __name__ == "__main__":
    os.set_inheritable(int(sys.argv[1]), False)
    main()
