"""The sandbox of a session: a spawner starts it, it serves on unix sockets and outlives the hub."""
