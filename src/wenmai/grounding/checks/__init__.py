"""Checks of one statement against the passages; each is a pure function that returns objections."""
