"""Joins programs to the place where people work: actions in, observations out."""

__version__ = "0.1.0"
