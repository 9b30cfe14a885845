-- The indexes of listings hold every row, but can serve only a statement that says so, as a listing does. To a planner
-- without statistics all indexes that begin with tenant and site cost the same, so that a look at one key was planned
-- with one of these, and took as long as there are records.
DROP INDEX conversations_by_age;
CREATE INDEX conversations_by_age ON conversations (tenant_id, site_id, user_id, created_at, session_id) WHERE row_id > 0;
DROP INDEX preferences_by_age;
CREATE INDEX preferences_by_age ON preferences (tenant_id, site_id, user_id, created_at, session_id) WHERE row_id > 0;
DROP INDEX turn_leases_by_age;
CREATE INDEX turn_leases_by_age ON turn_leases (tenant_id, site_id, user_id, created_at, thread) WHERE row_id > 0;
DROP INDEX idempotent_turns_by_age;
CREATE INDEX idempotent_turns_by_age ON idempotent_turns (tenant_id, site_id, user_id, created_at, idempotency_key) WHERE row_id > 0;
DROP INDEX idempotent_turns_by_session_id;
CREATE INDEX idempotent_turns_by_session_id ON idempotent_turns (tenant_id, site_id, user_id, left(session_id, 64), created_at, idempotency_key) WHERE row_id > 0;
DROP INDEX traces_by_age;
CREATE INDEX traces_by_age ON traces (tenant_id, site_id, user_id, created_at, trace_id) WHERE row_id > 0;
DROP INDEX traces_by_session_id;
CREATE INDEX traces_by_session_id ON traces (tenant_id, site_id, user_id, left(session_id, 64), created_at, trace_id) WHERE row_id > 0;
DROP INDEX traces_by_npc_id;
CREATE INDEX traces_by_npc_id ON traces (tenant_id, site_id, user_id, left(npc_id, 64), created_at, trace_id) WHERE row_id > 0;
DROP INDEX traces_by_policy_mode;
CREATE INDEX traces_by_policy_mode ON traces (tenant_id, site_id, user_id, left(policy_mode, 64), created_at, trace_id) WHERE row_id > 0;
DROP INDEX traces_by_intent;
CREATE INDEX traces_by_intent ON traces (tenant_id, site_id, user_id, left(intent, 64), created_at, trace_id) WHERE row_id > 0;
DROP INDEX persona_versions_by_age;
CREATE INDEX persona_versions_by_age ON persona_versions (tenant_id, site_id, created_at, ref) WHERE row_id > 0;
DROP INDEX persona_versions_by_npc_id;
CREATE INDEX persona_versions_by_npc_id ON persona_versions (tenant_id, site_id, left(npc_id, 64), created_at, ref) WHERE row_id > 0;
DROP INDEX prompt_versions_by_age;
CREATE INDEX prompt_versions_by_age ON prompt_versions (tenant_id, site_id, created_at, ref) WHERE row_id > 0;
DROP INDEX prompt_versions_by_npc_id;
CREATE INDEX prompt_versions_by_npc_id ON prompt_versions (tenant_id, site_id, left(npc_id, 64), created_at, ref) WHERE row_id > 0;
DROP INDEX active_versions_by_age;
CREATE INDEX active_versions_by_age ON active_versions (tenant_id, site_id, created_at, ref) WHERE row_id > 0;
DROP INDEX evidence_by_age;
CREATE INDEX evidence_by_age ON evidence (tenant_id, site_id, created_at, evidence_id) WHERE row_id > 0;
DROP INDEX evidence_by_source_ref;
CREATE INDEX evidence_by_source_ref ON evidence (tenant_id, site_id, left(source_ref, 64), created_at, evidence_id) WHERE row_id > 0;
DROP INDEX evidence_by_source_type;
CREATE INDEX evidence_by_source_type ON evidence (tenant_id, site_id, left(source_type, 64), created_at, evidence_id) WHERE row_id > 0;
