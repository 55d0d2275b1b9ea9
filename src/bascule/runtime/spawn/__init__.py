"""Spawners, which start the sandboxes of sessions.

Each kind of spawner is a `Spawner` in the module with the name of the kind.
"""
