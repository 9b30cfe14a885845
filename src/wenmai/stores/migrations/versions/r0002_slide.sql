-- The slide of an append that is one statement (see PostgresqlLogs): called only where a session's end is to move, it
-- costs all other appends nothing. False if the session has changed meanwhile.
CREATE FUNCTION slide_session(session_row bigint, ends timestamptz, lifetime interval, moment timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE conversations c SET expires_at = moment + lifetime, updated_at = moment
  WHERE c.row_id = session_row AND c.expires_at = ends;
  RETURN FOUND;
END $$;
