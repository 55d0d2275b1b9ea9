"""Shells: bash processes that keep their state, and the keeper that ends what they start."""
