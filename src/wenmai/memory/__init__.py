"""Conversation memory: sessions, transcripts, windows, preferences. Never a source of facts."""
