"""VS Code beside the code it edits, for people with a browser (code-server)."""
