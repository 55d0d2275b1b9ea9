"""Programs that are started from an argv, with separate stdin, stdout and stderr."""
