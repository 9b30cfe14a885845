"""The routes, one module per resource; handlers call the engine."""
