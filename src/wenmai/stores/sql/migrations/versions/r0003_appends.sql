-- append_messages as it was, and: the incarnation that the caller may name and is told. See revision 0001.
DROP FUNCTION append_messages;
DROP TYPE appended_message;
CREATE TYPE appended_message AS (
  place bigint,
  incarnation text,
  id text,
  seq bigint,
  turn_id bigint,
  role text,
  content text,
  "timestamp" timestamptz,
  name text,
  tool_calls json,
  tool_call_id text,
  tokens bigint,
  completed boolean,
  metadata json
);

CREATE FUNCTION append_messages(
  of_tenant text, of_site text, of_user text, of_session text, of_npc text, of_incarnation text,
  moment timestamptz, sliding boolean, tail bigint,
  roles text[], contents text[], moments timestamptz[], names text[], calls text[], call_ids text[],
  token_counts bigint[], completions boolean[], metadatas text[], given_ids text[]
) RETURNS SETOF appended_message LANGUAGE plpgsql AS $$
DECLARE
  session record;
  given record;
  answer appended_message;
  thread_id bigint;
  own text;
  last_seq bigint;
  last_turn bigint;
  known bigint;
BEGIN
  LOOP
    SELECT c.row_id, c.incarnation, c.expires_at, make_interval(secs => c.lifetime_seconds) AS lifetime INTO session
    FROM conversations c
    WHERE c.tenant_id = of_tenant AND c.site_id = of_site AND c.session_id = of_session AND c.user_id = of_user
      AND (of_incarnation IS NULL OR c.incarnation = of_incarnation) AND (c.keep_until IS NULL OR c.keep_until > moment);
    IF NOT FOUND THEN
      answer.role := 'absent';
      RETURN NEXT answer;
      RETURN;
    END IF;
    EXIT WHEN NOT sliding;
    IF session.expires_at <= moment THEN
      answer.role := 'expired';
      RETURN NEXT answer;
      RETURN;
    END IF;
    EXIT WHEN moment + session.lifetime - session.expires_at < least(interval '1 second', session.lifetime / 100);
    UPDATE conversations c SET expires_at = moment + session.lifetime, updated_at = moment
    WHERE c.row_id = session.row_id AND c.expires_at = session.expires_at;
    EXIT WHEN FOUND;
  END LOOP;

  -- From here on nobody else appends to the thread, cuts or erases it.
  LOOP
    SELECT t.thread, 'msg-' || t.label || '-' INTO thread_id, own
    FROM threads t WHERE t.conversation = session.row_id AND t.npc_id = of_npc FOR UPDATE;
    EXIT WHEN FOUND;
    PERFORM 1 FROM conversations c WHERE c.row_id = session.row_id FOR KEY SHARE;
    IF NOT FOUND THEN
      answer.role := 'absent';
      RETURN NEXT answer;
      RETURN;
    END IF;
    INSERT INTO threads AS t (conversation, incarnation, npc_id, label)
    VALUES (session.row_id, session.incarnation, of_npc, left(gen_random_uuid()::text, 8))
    ON CONFLICT DO NOTHING RETURNING t.thread, 'msg-' || t.label || '-' INTO thread_id, own;
    EXIT WHEN FOUND;
  END LOOP;
  SELECT m.seq, m.turn_id INTO last_seq, last_turn
  FROM messages m WHERE m.thread = thread_id ORDER BY m.seq DESC LIMIT 1;
  last_seq := coalesce(last_seq, 0);
  last_turn := coalesce(last_turn, 0);

  FOR given IN
    SELECT u.* FROM unnest(
      roles, contents, moments, names, calls, call_ids, token_counts, completions, metadatas, given_ids
    ) WITH ORDINALITY AS u (role, content, moment, name, calls, call_id, tokens, completed, metadata, id, place)
  LOOP
    IF given.id IS NOT NULL THEN
      SELECT m.seq INTO known FROM messages m WHERE m.thread = thread_id AND m.given_id = given.id;
      IF known IS NULL AND given.id ~ ('^' || own || '[1-9][0-9]{0,17}$') THEN
        SELECT m.seq INTO known FROM messages m
        WHERE m.thread = thread_id AND m.seq = substr(given.id, length(own) + 1)::bigint AND m.given_id IS NULL;
      END IF;
      IF known IS NOT NULL THEN
        RETURN QUERY SELECT given.place, session.incarnation, coalesce(m.given_id, own || m.seq), m.seq, m.turn_id, m.role,
          m.content, m.timestamp, m.name, m.tool_calls, m.tool_call_id, m.tokens, m.completed, m.metadata
        FROM messages m WHERE m.thread = thread_id AND m.seq = known;
        CONTINUE;
      END IF;
    END IF;
    last_seq := last_seq + 1;
    IF given.role = 'user' OR last_turn = 0 THEN
      last_turn := last_turn + 1;
    END IF;
    INSERT INTO messages (thread, seq, turn_id, role, content, timestamp, name, tool_calls, tool_call_id, tokens,
      completed, metadata, given_id)
    VALUES (thread_id, last_seq, last_turn, given.role, given.content, coalesce(given.moment, moment), given.name,
      given.calls::json, given.call_id, coalesce(given.tokens, 0), coalesce(given.completed, true),
      given.metadata::json, given.id);
    answer.place := given.place;
    answer.incarnation := session.incarnation;
    answer.id := coalesce(given.id, own || last_seq);
    answer.seq := last_seq;
    answer.turn_id := last_turn;
    RETURN NEXT answer;
  END LOOP;

  IF tail > 0 THEN
    RETURN QUERY SELECT NULL::bigint, session.incarnation, coalesce(m.given_id, own || m.seq), m.seq, m.turn_id, m.role,
      m.content, m.timestamp, m.name, m.tool_calls, m.tool_call_id, m.tokens, m.completed, m.metadata FROM messages m
    WHERE m.thread = thread_id AND m.turn_id NOT IN
      (SELECT u.turn_id FROM messages u WHERE u.thread = thread_id AND NOT u.completed)
    ORDER BY m.seq DESC LIMIT tail;
  END IF;
END $$;
