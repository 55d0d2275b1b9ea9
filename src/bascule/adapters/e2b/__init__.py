"""E2B's API on a hub: each sandbox of E2B's clients is a session.

Follows the clients `e2b` 2.63 for Python and 2.51 for JavaScript, and their code interpreters.
This package imports nothing from E2B.
"""

from .mount import E2BMount

__all__ = ["E2BMount"]
