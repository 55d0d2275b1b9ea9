"""A sandbox as a session has it: started by a spawner, behind unix sockets, outliving the hub."""
