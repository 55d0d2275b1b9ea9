"""Language features of a sandbox, by the language servers that are installed there."""
