-- The slide of an append that is one statement (wenmai.stores.postgresql.appends): called only where a session's end is to
-- move, it costs all other appends nothing. False if somebody changes the session or has changed it: it never waits.
CREATE FUNCTION slide_session(session_row bigint, ends timestamptz, lifetime interval, moment timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM conversations c WHERE c.row_id = session_row AND c.expires_at = ends FOR NO KEY UPDATE SKIP LOCKED;
  IF FOUND THEN
    UPDATE conversations c SET expires_at = moment + lifetime, updated_at = moment WHERE c.row_id = session_row;
  END IF;
  RETURN FOUND;
END $$;
