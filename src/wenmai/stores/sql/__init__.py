"""Shared by the SQL backends: columns of records, and migrations."""
