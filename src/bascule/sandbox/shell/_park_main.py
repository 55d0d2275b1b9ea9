"""The program tmux starts in a pane: it keeps the pane open and leaves the terminal to bash.

tmux closes a pane when the process it started there ends. That is this one, so bash can end and be
followed by another. It gives up its terminal, which a session must before another can take it,
says so there, and sleeps. It runs as `python -I -S _park_main.py MARK`.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios

signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which giving up the terminal brings
fcntl.ioctl(0, termios.TIOCNOTTY)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.write(1, sys.argv[1].encode())
os.execvp("sleep", ["sleep", "infinity"])  # noqa: S606
