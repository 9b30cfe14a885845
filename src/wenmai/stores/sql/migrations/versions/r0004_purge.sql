-- As purge_unreachable(bigint), which processes of version 3 still call, but of the tables that the caller names: those
-- of every record type that is bound to a session.
CREATE FUNCTION purge_unreachable(at_most bigint, bound text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  doomed bigint;
  earliest bigint;
  sessions text[];
  name text;
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
    FOREACH name IN ARRAY bound LOOP
      EXECUTE 'DELETE FROM ' || quote_ident(name) || ' b WHERE b.row_id IN (SELECT x.row_id FROM '
        || quote_ident(name) || ' x WHERE x.incarnation = ANY ($1) LIMIT $2)' USING sessions, rest;
      GET DIAGNOSTICS removed = ROW_COUNT;
      rest := rest - removed;
    END LOOP;
    EXIT WHEN rest <= 0;
    DELETE FROM purged_sessions p WHERE p.incarnation = ANY (sessions);
    rest := rest - cardinality(sessions);
  END LOOP;
  RETURN EXISTS (SELECT FROM purged_threads) OR EXISTS (SELECT FROM purged_sessions);
END $$;
