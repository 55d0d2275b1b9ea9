"""The sessions of a hub. Each has a workspace, a sandbox and a VS Code."""
