"""The action server: a sandbox behind a socket."""
