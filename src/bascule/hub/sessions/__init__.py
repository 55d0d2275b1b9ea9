"""The sessions of a hub: a workspace, a sandbox and a VS Code for each."""
