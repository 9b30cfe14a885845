"""The revisions: each a module and the SQL files that it runs."""
