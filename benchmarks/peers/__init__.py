"""One worker per subject: what is measured, in the process and Python where it lives.

These modules run in the virtual environments of other projects too, so `subject` and `http` need
nothing but the standard library.
"""
