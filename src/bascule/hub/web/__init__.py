"""The hub's own page: its files, who may use it, and the events it receives."""
