"""Files, editor, search and archives: blocking code without asyncio; callers use threads."""
