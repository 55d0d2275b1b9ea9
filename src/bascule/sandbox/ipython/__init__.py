"""IPython beside the code it runs: one kernel per sandbox, in a process of its own."""
