-- A vector is 32-bit floats in network byte order. Its number is never used again: a replaced vector gets a new one.
CREATE TABLE search_vectors (
  partition bigint NOT NULL,
  number bigint GENERATED ALWAYS AS IDENTITY,
  entry bigint NOT NULL,
  vector bytea NOT NULL,
  PRIMARY KEY (partition, number),
  UNIQUE (entry) INCLUDE (number)
);
ALTER TABLE search_vectors ALTER COLUMN vector SET STORAGE EXTERNAL;

-- Every write to a partition increments "changes".
ALTER TABLE search_partitions ADD COLUMN vectors bigint NOT NULL DEFAULT 0;
ALTER TABLE search_partitions ADD COLUMN changes bigint NOT NULL DEFAULT 0;

-- The texts of old entries are not known, so their digest equals none, and the next index of the entry asks for its
-- vector again.
ALTER TABLE search_entries ADD COLUMN digest bytea NOT NULL DEFAULT '';
ALTER TABLE search_entries ADD COLUMN fields json NOT NULL DEFAULT '{}';
ALTER TABLE search_entries ADD COLUMN embedded boolean NOT NULL DEFAULT FALSE;
UPDATE search_entries e SET fields = replace(f.fields::text, U&'\+10FFFF' || '0', '\u0000')::json
FROM (
  SELECT v.entry, json_object_agg(v.field, v.held) AS fields
  FROM (
    SELECT s.entry, s.field, CASE count(*) WHEN 1 THEN to_json(min(s.value)) ELSE json_agg(s.value) END AS held
    FROM search_fields s GROUP BY s.entry, s.field
  ) v
  GROUP BY v.entry
) f WHERE f.entry = e.entry;

-- Only databases that were created with pgvector have the old column. If the extension's library is not installed any
-- more, the vectors cannot be read and are given up: they arrive again when the entries are indexed again.
DO $$ BEGIN
  IF EXISTS (
    SELECT FROM pg_attribute a
    WHERE a.attrelid = 'search_entries'::regclass AND a.attname = 'vector' AND NOT a.attisdropped
  ) THEN
    BEGIN
      EXECUTE 'INSERT INTO search_vectors (partition, entry, vector)
        SELECT e.partition, e.entry, substring(vector_send(e.vector) FROM 5) FROM search_entries e
        WHERE e.vector IS NOT NULL ORDER BY e.entry';
    EXCEPTION WHEN undefined_file THEN NULL;
    END;
    EXECUTE 'ALTER TABLE search_entries DROP COLUMN vector';
    UPDATE search_entries e SET embedded = TRUE FROM search_vectors v WHERE v.entry = e.entry;
    UPDATE search_partitions p SET vectors = (SELECT count(*) FROM search_vectors v WHERE v.partition = p.partition);
  END IF;
END $$;
CREATE INDEX search_entries_without_vector ON search_entries (partition, id) WHERE NOT embedded;

-- A posting has the length of its entry, so that a search by words reads no entries but the best.
CREATE TABLE search_postings_with_length (
  partition bigint NOT NULL,
  term text COLLATE "C" NOT NULL,
  entry bigint NOT NULL,
  count integer NOT NULL,
  length integer NOT NULL,
  CONSTRAINT search_postings_by_term PRIMARY KEY (partition, term, entry) INCLUDE (count, length)
);
INSERT INTO search_postings_with_length (partition, term, entry, count, length)
SELECT p.partition, p.term, p.entry, p.count, e.length FROM search_postings p JOIN search_entries e USING (entry)
ORDER BY p.partition, p.term, p.entry;
DROP TABLE search_postings;
ALTER TABLE search_postings_with_length RENAME TO search_postings;
CREATE INDEX search_postings_by_entry ON search_postings (entry);

-- Values become sort keys: "s" and a text (code point 1 becomes 1 and 2, NUL becomes 1 and 1), or "n" and the order of a
-- number in hexadecimal digits.
ALTER TABLE search_fields RENAME COLUMN value TO sort_key;
UPDATE search_fields SET sort_key =
  's' || replace(replace(sort_key, E'\x01', E'\x01\x02'), U&'\+10FFFF' || '0', E'\x01\x01');
DROP INDEX search_fields_by_entry;
CREATE INDEX search_fields_by_entry ON search_fields (entry, field);
