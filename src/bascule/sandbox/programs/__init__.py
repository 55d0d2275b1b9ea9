"""Programs with pipes: started from an argv, with stdin, stdout and stderr apart."""
