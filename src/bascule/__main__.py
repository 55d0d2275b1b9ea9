"""`python -m bascule` is `bascule`."""

import sys

from bascule.cli import main

if __name__ == "__main__":
    sys.exit(main())
