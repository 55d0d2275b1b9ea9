"""A headless Chromium for agents: reads pages and executes calls on them.

A separate process, the worker, drives the browser. The first browser action starts it. `browser` is
the client of the worker, `worker` the program that runs in it.
"""
