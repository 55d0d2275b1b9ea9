"""Language features of a sandbox, with the language servers that are installed there."""
