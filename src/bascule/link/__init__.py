"""The one home of client connections."""
