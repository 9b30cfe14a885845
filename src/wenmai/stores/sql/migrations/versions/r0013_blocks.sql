-- Old entries keep their numbers. New ones are numbered by partition and place, which is greater than those.
ALTER TABLE search_partitions ADD COLUMN places bigint NOT NULL DEFAULT 0;
ALTER TABLE search_entries ALTER COLUMN entry DROP IDENTITY;

-- The terms find the postings of an entry without an index by entry.
ALTER TABLE search_entries ADD COLUMN terms text COLLATE "C" NOT NULL DEFAULT '';
UPDATE search_entries e SET terms = p.terms
FROM (SELECT entry, string_agg(term, E'\n') AS terms FROM search_postings GROUP BY entry) p WHERE p.entry = e.entry;

-- A row has the postings of a term in 128 successive entries, 8 bytes each: the entry's place in the block, the count (3
-- bytes), and the length of the entry.
CREATE TABLE search_postings_in_blocks (
  partition bigint NOT NULL,
  term text COLLATE "C" NOT NULL,
  block bigint NOT NULL,
  postings bytea NOT NULL,
  PRIMARY KEY (partition, term, block)
);
INSERT INTO search_postings_in_blocks (partition, term, block, postings)
SELECT partition, term, entry >> 7, string_agg(
  int8send(((entry & 127) << 56) | (least(count, 16777215)::bigint << 32) | length::bigint), '' ORDER BY entry
)
FROM search_postings GROUP BY partition, term, entry >> 7 ORDER BY partition, term, entry >> 7;
DROP TABLE search_postings;
ALTER TABLE search_postings_in_blocks RENAME TO search_postings;
ALTER INDEX search_postings_in_blocks_pkey RENAME TO search_postings_pkey;
