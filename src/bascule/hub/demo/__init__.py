"""The demo that the hub's page offers: a session, and a scripted agent at work in its VS Code."""
