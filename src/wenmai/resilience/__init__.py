"""Resilience against failing dependencies: circuit breakers, degradation, shielded work."""
