"""Public test fakes; each passes the same contract suite as the real implementation."""
