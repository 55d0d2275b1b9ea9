"""All client connections."""
