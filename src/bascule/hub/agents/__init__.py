"""Calls for programs that run an agent of their own in a session or beside a window."""
