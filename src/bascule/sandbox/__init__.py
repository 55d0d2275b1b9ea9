"""The sandbox: shells, files, editor, search, browser, IPython, and the action server."""
