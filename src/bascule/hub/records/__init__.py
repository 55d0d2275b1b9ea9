"""Records on disk of what was done in sessions and windows."""
