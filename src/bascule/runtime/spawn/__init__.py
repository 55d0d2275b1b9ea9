"""Ways to get a sandbox for a session. Each kind is a `Spawner` in a module of its name."""
