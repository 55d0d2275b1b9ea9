"""What was done in sessions and windows, written down so that it lasts."""
