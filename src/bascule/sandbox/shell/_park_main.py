"""The program tmux starts in a pane: it keeps the pane open and leaves the terminal to bash.

tmux closes a pane when the process it started there exits. That process is this one, so bash can
exit and be replaced by a new bash. It gives up its controlling terminal, because a terminal belongs
to one session at a time. Then it prints MARK and sleeps. It runs as
`python -I -S _park_main.py MARK`.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios

signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the kernel sends SIGHUP on TIOCNOTTY
fcntl.ioctl(0, termios.TIOCNOTTY)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.write(1, sys.argv[1].encode())
os.execvp("sleep", ["sleep", "infinity"])  # noqa: S606
