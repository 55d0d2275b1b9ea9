"""E2B's API, with E2B's own unmodified clients."""
