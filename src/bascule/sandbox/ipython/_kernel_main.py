"""Starts an IPython kernel that survives an interrupt at any time.

ipykernel enables interrupts while it handles a request. An interrupt that arrives just as the
handler returns, or while the handler awaits, is raised in the kernel's event loop and ends the
kernel. Here it is ignored: the cell it was for has ended.
"""

from __future__ import annotations

import sys
from types import FrameType

_HANDLER = "execute_request"
"""The method of the kernel that runs a cell. An interrupt raised below it is reported as the error
of the cell, or logged."""


def interrupt_cell(_number: int, frame: FrameType | None) -> None:
    """The handler of SIGINT while the kernel handles a request."""
    while frame is not None:
        if frame.f_code.co_name == _HANDLER:
            raise KeyboardInterrupt
        frame = frame.f_back


def main() -> None:
    # The directory of this file comes first. The modules in it are not for cells.
    del sys.path[0]
    from ipykernel import kernelapp, kernelbase

    kernelbase.default_int_handler = interrupt_cell  # type: ignore[assignment, attr-defined]
    kernelapp.launch_new_instance()


if __name__ == "__main__":
    main()
