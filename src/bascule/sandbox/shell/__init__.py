"""Shells: bash that remembers, and the keeper that ends whatever they start."""
