"""VS Code for the browser (code-server)."""
