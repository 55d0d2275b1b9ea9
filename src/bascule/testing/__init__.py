"""Fakes we publish; each passes the same contract suite as the real thing."""
