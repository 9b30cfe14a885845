-- What model calls use, by day: the record type Usage.
CREATE TABLE usage (
  row_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  site_id text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  ref text COLLATE "C" NOT NULL,
  day text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  of text COLLATE "C" NOT NULL,
  calls bigint NOT NULL,
  prompt_tokens bigint NOT NULL,
  completion_tokens bigint NOT NULL,
  cost_usd double precision NOT NULL,
  version bigint NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  keep_until timestamptz,
  UNIQUE (tenant_id, site_id, ref)
);
CREATE INDEX usage_by_age ON usage (tenant_id, site_id, created_at, ref) WHERE row_id > 0;
CREATE INDEX usage_by_end ON usage (keep_until) WHERE keep_until IS NOT NULL;
CREATE INDEX usage_by_day ON usage (tenant_id, site_id, left(day, 64), created_at, ref) WHERE row_id > 0;
