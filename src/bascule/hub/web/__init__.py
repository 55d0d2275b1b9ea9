"""The hub's own web page: its files, its authentication, and the events sent to it."""
