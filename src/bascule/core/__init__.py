"""Types shared by all packages: actions, observations, contracts, errors. No I/O."""
