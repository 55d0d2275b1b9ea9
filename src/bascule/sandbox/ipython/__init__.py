"""IPython cells: one kernel per sandbox, in a separate process."""
