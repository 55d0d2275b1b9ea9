"""Checks of a deployed hub from the outside: `bascule doctor --cloud`."""
