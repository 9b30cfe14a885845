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

-- Processes of version 3, which called it, must have ended: the leases that it names are gone.
DROP FUNCTION purge_unreachable(bigint);
