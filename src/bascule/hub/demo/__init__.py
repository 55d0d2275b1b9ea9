"""The demo on the hub's page: a session with a scripted agent working in its VS Code."""
