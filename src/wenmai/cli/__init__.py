"""The command line: one module per command; slow imports are deferred until a command needs them."""
