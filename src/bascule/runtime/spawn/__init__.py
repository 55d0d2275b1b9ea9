"""Spawners, which start the sandboxes of sessions.

Each kind is a `Spawner` in the module of its name.
"""
