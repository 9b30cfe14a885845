"""Checkable claims of a text: dates, counts, names, titles."""
