"""The words everyone shares: actions, observations, contracts, errors. No I/O."""
