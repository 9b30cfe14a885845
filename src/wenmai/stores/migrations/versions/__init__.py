"""The revisions, each a module and the SQL that it runs."""
