"""The sandbox of a session: started by a spawner, served on unix sockets, outlives the hub."""
