"""Ways to get an action done."""
