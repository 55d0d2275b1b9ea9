"""Beside the code it runs: shells, files, editor, search, and the action server."""
