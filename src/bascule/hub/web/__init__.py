"""The hub's own page: its files, who may use it, and what it is told while it is open."""
