-- Until revision 4, entries had their vector as a column of pgvector's type, which new databases do without.
CREATE TABLE search_partitions (
  partition bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  site_id text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  shared boolean NOT NULL,
  collection text COLLATE "C" NOT NULL,
  dimension integer,
  entries bigint NOT NULL,
  length bigint NOT NULL,
  UNIQUE (tenant_id, site_id, user_id, shared, collection)
);
CREATE TABLE search_entries (
  entry bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  partition bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  length bigint NOT NULL,
  UNIQUE (partition, id)
);
CREATE TABLE search_postings (
  partition bigint NOT NULL,
  term text COLLATE "C" NOT NULL,
  entry bigint NOT NULL,
  count bigint NOT NULL,
  PRIMARY KEY (partition, term, entry) INCLUDE (count)
);
CREATE INDEX search_postings_by_entry ON search_postings (entry);
CREATE TABLE search_fields (
  partition bigint NOT NULL,
  field text COLLATE "C" NOT NULL,
  value text COLLATE "C" NOT NULL,
  entry bigint NOT NULL
);
CREATE INDEX search_fields_by_value ON search_fields (partition, field, left(value, 64), entry);
CREATE INDEX search_fields_by_entry ON search_fields (entry);
