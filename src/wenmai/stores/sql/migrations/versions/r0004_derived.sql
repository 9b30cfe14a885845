-- Leases of any name replace those on threads; they bind for seconds, so no old one is kept.
DROP TABLE turn_leases;
CREATE TABLE leases (
  row_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  site_id text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  incarnation text COLLATE "C" NOT NULL,
  holder text COLLATE "C" NOT NULL,
  expires_at timestamptz NOT NULL,
  version bigint NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  keep_until timestamptz,
  UNIQUE (tenant_id, site_id, name)
);
CREATE INDEX leases_by_age ON leases (tenant_id, site_id, user_id, created_at, name) WHERE row_id > 0;
CREATE INDEX leases_by_end ON leases (keep_until) WHERE keep_until IS NOT NULL;
CREATE INDEX leases_by_incarnation ON leases (incarnation);

-- How far derived records follow their threads.
CREATE TABLE watermarks (
  row_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  site_id text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  ref text COLLATE "C" NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  incarnation text COLLATE "C" NOT NULL,
  function text COLLATE "C" NOT NULL,
  npc_id text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  version bigint NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  keep_until timestamptz,
  UNIQUE (tenant_id, site_id, ref)
);
CREATE INDEX watermarks_by_age ON watermarks (tenant_id, site_id, user_id, created_at, ref) WHERE row_id > 0;
CREATE INDEX watermarks_by_end ON watermarks (keep_until) WHERE keep_until IS NOT NULL;
CREATE INDEX watermarks_by_incarnation ON watermarks (incarnation);

-- purge_unreachable as it was, with the tables of this revision. See revision 0003.
CREATE OR REPLACE FUNCTION purge_unreachable(at_most bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  doomed bigint;
  earliest bigint;
  sessions text[];
  removed bigint;
  rest bigint := at_most;
BEGIN
  PERFORM pg_advisory_xact_lock(1464159821, 1);
  WHILE rest > 0 LOOP
    SELECT p.thread INTO doomed FROM purged_threads p ORDER BY p.thread LIMIT 1;
    EXIT WHEN NOT FOUND;
    SELECT m.seq INTO earliest FROM messages m WHERE m.thread = doomed ORDER BY m.seq LIMIT 1;
    DELETE FROM messages m WHERE m.thread = doomed AND m.seq < earliest + rest;
    GET DIAGNOSTICS removed = ROW_COUNT;
    rest := rest - removed - 1;
    IF rest >= 0 THEN
      DELETE FROM purged_threads p WHERE p.thread = doomed;
    END IF;
  END LOOP;
  WHILE rest > 0 LOOP
    sessions := ARRAY(SELECT p.incarnation FROM purged_sessions p ORDER BY p.incarnation LIMIT 100);
    EXIT WHEN sessions = '{}';
    DELETE FROM preferences b WHERE b.row_id IN
      (SELECT x.row_id FROM preferences x WHERE x.incarnation = ANY (sessions) LIMIT rest);
    GET DIAGNOSTICS removed = ROW_COUNT;
    rest := rest - removed;
    DELETE FROM leases b WHERE b.row_id IN
      (SELECT x.row_id FROM leases x WHERE x.incarnation = ANY (sessions) LIMIT rest);
    GET DIAGNOSTICS removed = ROW_COUNT;
    rest := rest - removed;
    DELETE FROM watermarks b WHERE b.row_id IN
      (SELECT x.row_id FROM watermarks x WHERE x.incarnation = ANY (sessions) LIMIT rest);
    GET DIAGNOSTICS removed = ROW_COUNT;
    rest := rest - removed;
    DELETE FROM idempotent_turns b WHERE b.row_id IN
      (SELECT x.row_id FROM idempotent_turns x WHERE x.incarnation = ANY (sessions) LIMIT rest);
    GET DIAGNOSTICS removed = ROW_COUNT;
    rest := rest - removed;
    DELETE FROM traces b WHERE b.row_id IN
      (SELECT x.row_id FROM traces x WHERE x.incarnation = ANY (sessions) LIMIT rest);
    GET DIAGNOSTICS removed = ROW_COUNT;
    rest := rest - removed;
    EXIT WHEN rest <= 0;
    DELETE FROM purged_sessions p WHERE p.incarnation = ANY (sessions);
    rest := rest - cardinality(sessions);
  END LOOP;
  RETURN EXISTS (SELECT FROM purged_threads) OR EXISTS (SELECT FROM purged_sessions);
END $$;
