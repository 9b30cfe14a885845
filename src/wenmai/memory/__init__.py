"""What is remembered of a talk: sessions, transcripts, windows, preferences. Never a source of facts."""
