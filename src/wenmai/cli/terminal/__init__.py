"""Terminal input and output of the commands."""
