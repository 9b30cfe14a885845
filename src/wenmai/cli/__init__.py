"""The command line: each command in a module of its own; what takes long to import is imported when it is needed."""
