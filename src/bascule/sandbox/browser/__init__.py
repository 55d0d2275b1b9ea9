"""A headless Chromium for agents: pages to read, and calls to act on them.

The browser is driven in a process of its own, the worker, which only starts with the first action
that needs it. `browser` is our end of it, `worker` the other.
"""
