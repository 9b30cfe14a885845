"""The table and the indexes of a record type; revisions create tables of new types with it."""

from collections.abc import Sequence

from wenmai.stores.identity import INCARNATION
from wenmai.stores.postgresql.tables import INDEXED_PREFIX, LISTING_HINT, SQL_TYPES
from wenmai.stores.records import Record, RecordSpec
from wenmai.stores.sql.columns import columns_of

Definitions = Sequence[tuple[str, str]]
"""The columns of a record's fields: name and definition."""


def definitions_of(of: type[Record]) -> Definitions:
    """The columns of the fields of a type, as it is declared now. A revision lists its own, which never change."""
    collate = {"text": 'text COLLATE "C"'}
    return [
        (column.name, collate.get(column.sql_type, column.sql_type) + ("" if column.nullable else " NOT NULL"))
        for column in columns_of(of, SQL_TYPES)
    ]


def table_ddl(spec: RecordSpec, definitions: Definitions) -> list[str]:
    """The statements that create the table, in order.

    Texts are compared by code point. A filter is indexed by its beginning, because an index entry has to fit into a
    third of a page.
    """
    name, key = spec.collection, spec.key
    owner = "tenant_id, site_id" if spec.shared else "tenant_id, site_id, user_id"
    columns = [
        "row_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        *(f'{column} text COLLATE "C" NOT NULL' for column in ("tenant_id", "site_id", "user_id")),
        *(f"{column} {definition}" for column, definition in definitions),
        "version bigint NOT NULL",
        "created_at timestamptz NOT NULL",
        "updated_at timestamptz NOT NULL",
        "keep_until timestamptz",
        f"UNIQUE (tenant_id, site_id, {key})",
    ]
    listings = [("age", owner), *((field, f"{owner}, left({field}, {INDEXED_PREFIX})") for field in spec.filters)]
    statements = [
        f"CREATE TABLE {name} ({', '.join(columns)})",
        f"CREATE INDEX {name}_by_end ON {name} (keep_until) WHERE keep_until IS NOT NULL",
        *(
            f"CREATE INDEX {name}_by_{by} ON {name} ({place}, created_at, {key}) WHERE {LISTING_HINT}"
            for by, place in listings
        ),
    ]
    if spec.bound_to:
        statements.append(f"CREATE INDEX {name}_by_{INCARNATION} ON {name} ({INCARNATION})")
    return statements
