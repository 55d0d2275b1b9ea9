"""The parts of an HTTP server that the action server and the hub share."""
