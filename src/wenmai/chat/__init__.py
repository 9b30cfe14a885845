"""The turn: from a question to an answer supported by evidence."""
