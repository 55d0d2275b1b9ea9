"""Records on disk of the actions and observations in sessions and windows."""
