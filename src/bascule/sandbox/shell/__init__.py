"""Shells: bash processes that keep their state, and the keeper that ends their child processes."""
