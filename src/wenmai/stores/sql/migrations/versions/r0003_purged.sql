-- What hung on threads and sessions that are gone: it can no longer be reached, and is removed in slices, so that no
-- statement takes long. Numbers of threads and incarnations never come back.
CREATE TABLE purged_threads (
  thread bigint PRIMARY KEY
);
CREATE TABLE purged_sessions (
  incarnation text COLLATE "C" PRIMARY KEY
);

CREATE OR REPLACE FUNCTION forget_messages() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO purged_threads (thread) VALUES (old.thread);
  RETURN NULL;
END $$;

CREATE FUNCTION forget_session() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO purged_sessions (incarnation) SELECT g.incarnation FROM gone g ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER a_session_is_gone AFTER DELETE ON conversations REFERENCING OLD TABLE AS gone
FOR EACH STATEMENT EXECUTE FUNCTION forget_session();

-- Removes about so many rows at most; whether there are more. One runs at a time: what is to be removed has no order in
-- which two could go without waiting for each other. A record that is bound to a session is written by a statement that
-- holds the session, so once the delete of the session is seen here no more are to come.
CREATE FUNCTION purge_unreachable(at_most bigint) RETURNS boolean LANGUAGE plpgsql AS $$
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
    DELETE FROM turn_leases b WHERE b.row_id IN
      (SELECT x.row_id FROM turn_leases x WHERE x.incarnation = ANY (sessions) LIMIT rest);
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
