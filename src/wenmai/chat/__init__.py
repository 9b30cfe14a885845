"""The turn: from a question to an answer that stands on evidence."""
