-- Of every session at random; from now on Wenmai gives it.
ALTER TABLE conversations ADD COLUMN incarnation text COLLATE "C" NOT NULL
  DEFAULT left(gen_random_uuid()::text, 8) || left(gen_random_uuid()::text, 8);
ALTER TABLE conversations ALTER COLUMN incarnation DROP DEFAULT;

-- A thread's is that of its session, with which it goes; it is here for the append, which then looks at one row less.
ALTER TABLE threads ADD COLUMN incarnation text COLLATE "C";
UPDATE threads t SET incarnation = c.incarnation FROM conversations c WHERE c.row_id = t.conversation;
ALTER TABLE threads ALTER COLUMN incarnation SET NOT NULL;

-- What hung on sessions that are gone, or that others have now, goes.
ALTER TABLE preferences ADD COLUMN incarnation text COLLATE "C";
UPDATE preferences p SET incarnation = c.incarnation FROM conversations c
  WHERE c.tenant_id = p.tenant_id AND c.site_id = p.site_id AND c.session_id = p.session_id AND c.user_id = p.user_id;
DELETE FROM preferences WHERE incarnation IS NULL;
ALTER TABLE preferences ALTER COLUMN incarnation SET NOT NULL;
CREATE INDEX preferences_by_incarnation ON preferences (incarnation);

-- Leases bind for seconds; those of a process that still runs are of no use to this one.
DELETE FROM turn_leases;
ALTER TABLE turn_leases
  ADD COLUMN session_id text COLLATE "C" NOT NULL,
  ADD COLUMN incarnation text COLLATE "C" NOT NULL;
CREATE INDEX turn_leases_by_incarnation ON turn_leases (incarnation);

-- Attempts without an answer are over: the process that made them was stopped for the upgrade.
ALTER TABLE idempotent_turns
  ADD COLUMN attempt_id text COLLATE "C",
  ADD COLUMN asked_session text COLLATE "C",
  ADD COLUMN incarnation text COLLATE "C";
UPDATE idempotent_turns i SET incarnation = c.incarnation, asked_session = i.session_id,
    attempt_id = left(gen_random_uuid()::text, 8) || left(gen_random_uuid()::text, 8)
  FROM conversations c
  WHERE c.tenant_id = i.tenant_id AND c.site_id = i.site_id AND c.session_id = i.session_id AND c.user_id = i.user_id
    AND i.response::text <> 'null';
DELETE FROM idempotent_turns WHERE incarnation IS NULL;
ALTER TABLE idempotent_turns
  ALTER COLUMN attempt_id SET NOT NULL,
  ALTER COLUMN asked_session SET NOT NULL,
  ALTER COLUMN incarnation SET NOT NULL;
CREATE INDEX idempotent_turns_by_incarnation ON idempotent_turns (incarnation);

-- A trace's key begins with its user; a trace of no session hangs on none.
DELETE FROM traces t WHERE t.session_id <> '' AND NOT EXISTS (SELECT FROM conversations c
  WHERE c.tenant_id = t.tenant_id AND c.site_id = t.site_id AND c.session_id = t.session_id AND c.user_id = t.user_id);
ALTER TABLE traces
  ADD COLUMN ref text COLLATE "C",
  ADD COLUMN incarnation text COLLATE "C";
DROP INDEX traces_by_age, traces_by_session_id, traces_by_npc_id, traces_by_policy_mode, traces_by_intent;
UPDATE traces t SET ref = t.user_id || '/' || t.trace_id, incarnation = coalesce((SELECT c.incarnation
  FROM conversations c
  WHERE c.tenant_id = t.tenant_id AND c.site_id = t.site_id AND c.session_id = t.session_id), '');
ALTER TABLE traces
  ALTER COLUMN ref SET NOT NULL,
  ALTER COLUMN incarnation SET NOT NULL,
  DROP CONSTRAINT traces_tenant_id_site_id_trace_id_key,
  ADD UNIQUE (tenant_id, site_id, ref);
CREATE INDEX traces_by_age ON traces (tenant_id, site_id, user_id, created_at, ref) WHERE row_id > 0;
CREATE INDEX traces_by_session_id ON traces (tenant_id, site_id, user_id, left(session_id, 64), created_at, ref) WHERE row_id > 0;
CREATE INDEX traces_by_npc_id ON traces (tenant_id, site_id, user_id, left(npc_id, 64), created_at, ref) WHERE row_id > 0;
CREATE INDEX traces_by_policy_mode ON traces (tenant_id, site_id, user_id, left(policy_mode, 64), created_at, ref) WHERE row_id > 0;
CREATE INDEX traces_by_intent ON traces (tenant_id, site_id, user_id, left(intent, 64), created_at, ref) WHERE row_id > 0;
CREATE INDEX traces_by_incarnation ON traces (incarnation);
