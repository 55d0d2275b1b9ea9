"""Files, editor, search and archives: plain blocking code that never sees an event loop."""
