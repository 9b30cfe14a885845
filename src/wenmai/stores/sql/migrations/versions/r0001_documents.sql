-- A table for each record type, as it was declared when this revision was made. Texts are compared by code point, JSON is
-- kept as it was written (jsonb refuses NUL), and a filter is indexed by its beginning, because an index entry has to fit
-- into a third of a page.

CREATE TABLE conversations (
  row_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  site_id text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  expires_at timestamptz NOT NULL,
  lifetime_seconds bigint NOT NULL,
  title text COLLATE "C" NOT NULL,
  title_by text COLLATE "C" NOT NULL,
  first_question text COLLATE "C" NOT NULL,
  context json NOT NULL,
  metadata json NOT NULL,
  total_tokens_used bigint NOT NULL,
  total_cost_usd double precision NOT NULL,
  version bigint NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  keep_until timestamptz,
  UNIQUE (tenant_id, site_id, session_id)
);
CREATE INDEX conversations_by_age ON conversations (tenant_id, site_id, user_id, created_at, session_id);
CREATE INDEX conversations_by_end ON conversations (keep_until) WHERE keep_until IS NOT NULL;

CREATE TABLE preferences (
  row_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  site_id text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  verbosity text COLLATE "C" NOT NULL,
  tone text COLLATE "C" NOT NULL,
  language text COLLATE "C" NOT NULL,
  interest_tags json NOT NULL,
  chosen json NOT NULL,
  sources json NOT NULL,
  version bigint NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  keep_until timestamptz,
  UNIQUE (tenant_id, site_id, session_id)
);
CREATE INDEX preferences_by_age ON preferences (tenant_id, site_id, user_id, created_at, session_id);
CREATE INDEX preferences_by_end ON preferences (keep_until) WHERE keep_until IS NOT NULL;

CREATE TABLE turn_leases (
  row_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  site_id text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  thread text COLLATE "C" NOT NULL,
  holder text COLLATE "C" NOT NULL,
  expires_at timestamptz NOT NULL,
  version bigint NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  keep_until timestamptz,
  UNIQUE (tenant_id, site_id, thread)
);
CREATE INDEX turn_leases_by_age ON turn_leases (tenant_id, site_id, user_id, created_at, thread);
CREATE INDEX turn_leases_by_end ON turn_leases (keep_until) WHERE keep_until IS NOT NULL;

CREATE TABLE idempotent_turns (
  row_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  site_id text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  fingerprint text COLLATE "C" NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  holder text COLLATE "C" NOT NULL,
  attempt_expires_at timestamptz NOT NULL,
  response json NOT NULL,
  version bigint NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  keep_until timestamptz,
  UNIQUE (tenant_id, site_id, idempotency_key)
);
CREATE INDEX idempotent_turns_by_age ON idempotent_turns (tenant_id, site_id, user_id, created_at, idempotency_key);
CREATE INDEX idempotent_turns_by_end ON idempotent_turns (keep_until) WHERE keep_until IS NOT NULL;
CREATE INDEX idempotent_turns_by_session_id ON idempotent_turns (tenant_id, site_id, user_id, left(session_id, 64), created_at, idempotency_key);

CREATE TABLE traces (
  row_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  site_id text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  trace_id text COLLATE "C" NOT NULL,
  started_at timestamptz NOT NULL,
  completed_at timestamptz NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  npc_id text COLLATE "C" NOT NULL,
  turn_id bigint NOT NULL,
  request_input json NOT NULL,
  tool_calls json NOT NULL,
  intent text COLLATE "C" NOT NULL,
  evidence_ids json NOT NULL,
  policy_mode text COLLATE "C" NOT NULL,
  policy_reason text COLLATE "C" NOT NULL,
  blocks json NOT NULL,
  answer text COLLATE "C" NOT NULL,
  model text COLLATE "C" NOT NULL,
  prompt_tokens bigint NOT NULL,
  completion_tokens bigint NOT NULL,
  cost_usd double precision NOT NULL,
  latency_ms double precision NOT NULL,
  degraded json NOT NULL,
  error text COLLATE "C",
  replay_of text COLLATE "C",
  details json NOT NULL,
  version bigint NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  keep_until timestamptz,
  UNIQUE (tenant_id, site_id, trace_id)
);
CREATE INDEX traces_by_age ON traces (tenant_id, site_id, user_id, created_at, trace_id);
CREATE INDEX traces_by_end ON traces (keep_until) WHERE keep_until IS NOT NULL;
CREATE INDEX traces_by_session_id ON traces (tenant_id, site_id, user_id, left(session_id, 64), created_at, trace_id);
CREATE INDEX traces_by_npc_id ON traces (tenant_id, site_id, user_id, left(npc_id, 64), created_at, trace_id);
CREATE INDEX traces_by_policy_mode ON traces (tenant_id, site_id, user_id, left(policy_mode, 64), created_at, trace_id);
CREATE INDEX traces_by_intent ON traces (tenant_id, site_id, user_id, left(intent, 64), created_at, trace_id);

CREATE TABLE persona_versions (
  row_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  site_id text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  ref text COLLATE "C" NOT NULL,
  npc_id text COLLATE "C" NOT NULL,
  number bigint NOT NULL,
  persona json NOT NULL,
  author text COLLATE "C" NOT NULL,
  note text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  keep_until timestamptz,
  UNIQUE (tenant_id, site_id, ref)
);
CREATE INDEX persona_versions_by_age ON persona_versions (tenant_id, site_id, created_at, ref);
CREATE INDEX persona_versions_by_end ON persona_versions (keep_until) WHERE keep_until IS NOT NULL;
CREATE INDEX persona_versions_by_npc_id ON persona_versions (tenant_id, site_id, left(npc_id, 64), created_at, ref);

CREATE TABLE prompt_versions (
  row_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  site_id text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  ref text COLLATE "C" NOT NULL,
  npc_id text COLLATE "C" NOT NULL,
  number bigint NOT NULL,
  text text COLLATE "C" NOT NULL,
  language text COLLATE "C" NOT NULL,
  author text COLLATE "C" NOT NULL,
  note text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  keep_until timestamptz,
  UNIQUE (tenant_id, site_id, ref)
);
CREATE INDEX prompt_versions_by_age ON prompt_versions (tenant_id, site_id, created_at, ref);
CREATE INDEX prompt_versions_by_end ON prompt_versions (keep_until) WHERE keep_until IS NOT NULL;
CREATE INDEX prompt_versions_by_npc_id ON prompt_versions (tenant_id, site_id, left(npc_id, 64), created_at, ref);

CREATE TABLE active_versions (
  row_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  site_id text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  ref text COLLATE "C" NOT NULL,
  number bigint NOT NULL,
  latest bigint NOT NULL,
  version bigint NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  keep_until timestamptz,
  UNIQUE (tenant_id, site_id, ref)
);
CREATE INDEX active_versions_by_age ON active_versions (tenant_id, site_id, created_at, ref);
CREATE INDEX active_versions_by_end ON active_versions (keep_until) WHERE keep_until IS NOT NULL;

CREATE TABLE evidence (
  row_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  site_id text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  evidence_id text COLLATE "C" NOT NULL,
  title text COLLATE "C" NOT NULL,
  text text COLLATE "C" NOT NULL,
  source_type text COLLATE "C" NOT NULL,
  source_ref text COLLATE "C" NOT NULL,
  source_url text COLLATE "C" NOT NULL,
  domains json NOT NULL,
  language text COLLATE "C" NOT NULL,
  confidence double precision NOT NULL,
  verified boolean NOT NULL,
  tags json NOT NULL,
  version bigint NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  keep_until timestamptz,
  UNIQUE (tenant_id, site_id, evidence_id)
);
CREATE INDEX evidence_by_age ON evidence (tenant_id, site_id, created_at, evidence_id);
CREATE INDEX evidence_by_end ON evidence (keep_until) WHERE keep_until IS NOT NULL;
CREATE INDEX evidence_by_source_ref ON evidence (tenant_id, site_id, left(source_ref, 64), created_at, evidence_id);
CREATE INDEX evidence_by_source_type ON evidence (tenant_id, site_id, left(source_type, 64), created_at, evidence_id);
