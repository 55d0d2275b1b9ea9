"""The action server: serves one sandbox over HTTP."""
