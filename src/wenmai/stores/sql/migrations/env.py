"""Alembic environment: writes the revisions as SQL (see :func:`upgrade_script`)."""

from alembic import context

from wenmai.stores.sql.migrations import VERSION_TABLE

context.configure(dialect_name="postgresql", version_table=VERSION_TABLE)
context.run_migrations()
