-- Hosts that share the store, by the database's clock. Whether one lives, its advisory lock tells.

CREATE TABLE hosts (
    id text PRIMARY KEY,
    name text NOT NULL,
    url text NOT NULL,
    version text NOT NULL,
    agents_open bigint NOT NULL,
    max_agents bigint NOT NULL,
    leaving boolean NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Names of hosts that shall own no session.
CREATE TABLE drained (name text PRIMARY KEY);

-- What each host owns, what of it is unsettled, and what is unsettled and nobody's.
CREATE INDEX sessions_owner ON sessions (owner, unsettled) WHERE owner IS NOT NULL;
CREATE INDEX sessions_unowned ON sessions (active_at, id) WHERE owner IS NULL AND unsettled = 1;
