"""Users of the hub: their accounts and roles, shared sessions, sign-in and the audit log."""
