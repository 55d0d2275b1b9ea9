"""Egress: which parts of the network a session may reach, and the proxy that enforces it."""
