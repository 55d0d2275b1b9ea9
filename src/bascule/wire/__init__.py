"""Values to and from what travels: events, errors, the schema of both. No sockets."""
