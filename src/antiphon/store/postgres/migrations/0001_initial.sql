-- The first schema; the same tables as in SQLite. Everything that is kept of a value as a whole is JSON in a bytea:
-- PostgreSQL's text and jsonb can't hold NUL. Beside it stand the columns that are searched.

-- SQLite's function, so that both engines run the same statements.
CREATE FUNCTION instr(text, text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN strpos($1, $2);

CREATE SEQUENCE fences AS bigint;

-- `number` stands for the session in all other tables and is never given twice.
CREATE TABLE sessions (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    key text,
    fence bigint NOT NULL,
    owner text,
    sequence bigint NOT NULL,
    agent text NOT NULL,
    status text NOT NULL,
    labels text NOT NULL,
    search text NOT NULL,
    active_at bigint NOT NULL,
    unsettled bigint NOT NULL,
    deleted_at bigint,
    state bytea NOT NULL
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX sessions_key ON sessions (key) WHERE deleted_at IS NULL;
CREATE INDEX sessions_activity ON sessions (active_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX sessions_unsettled ON sessions (active_at DESC, id DESC) WHERE unsettled = 1;
CREATE INDEX sessions_deleted ON sessions (number) WHERE deleted_at IS NOT NULL;

-- `position` is that of the feed's row that the entry came with.
CREATE TABLE entries (
    session bigint NOT NULL,
    sequence bigint NOT NULL,
    position bigint NOT NULL,
    generation bigint NOT NULL,
    type text NOT NULL,
    at bigint NOT NULL,
    turn_id text,
    message_id text,
    data bytea NOT NULL,
    PRIMARY KEY (session, sequence)
);

-- One row a commit. Positions are not in the order of commits; readers go by the transaction and stop before the oldest
-- that still runs, so that nothing appears behind them.
CREATE TABLE feed (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    session bigint NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL
);
CREATE INDEX feed_order ON feed (xid, position);

-- `accepted` is the sequence at which the message was accepted.
CREATE TABLE messages (
    id text PRIMARY KEY,
    session bigint NOT NULL,
    generation bigint NOT NULL,
    accepted bigint NOT NULL,
    record bytea NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX messages_transcript ON messages (session, generation, accepted, id);

CREATE TABLE bodies (message_id text PRIMARY KEY, body bytea NOT NULL);

-- What idempotency keys were spent on.
CREATE TABLE keys (
    session bigint NOT NULL,
    key text NOT NULL,
    message_id text NOT NULL,
    digest text,
    PRIMARY KEY (session, key)
);

CREATE TABLE turns (
    id text PRIMARY KEY,
    session bigint NOT NULL,
    generation bigint NOT NULL,
    first_sequence bigint NOT NULL,
    record bytea NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX turns_session ON turns (session, first_sequence, id);

CREATE TABLE permissions (
    id text PRIMARY KEY,
    session bigint NOT NULL,
    state text NOT NULL,
    requested_at bigint NOT NULL,
    record bytea NOT NULL
);
CREATE INDEX permissions_newest ON permissions (requested_at DESC, id DESC);
CREATE INDEX permissions_pending ON permissions (requested_at DESC, id DESC) WHERE state = 'pending';
CREATE INDEX permissions_session ON permissions (session);
