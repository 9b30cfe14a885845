"""Settings and profiles: read and validated once at startup, then passed down as values."""
