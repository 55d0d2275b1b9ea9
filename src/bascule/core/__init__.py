"""Shared types: actions, observations, contracts, errors. No I/O."""
