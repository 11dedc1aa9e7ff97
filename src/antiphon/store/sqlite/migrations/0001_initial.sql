-- The first schema. Everything that is kept of a value as a whole is JSON in a BLOB; beside it stand the columns that
-- are searched.

CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE fences (one INTEGER PRIMARY KEY CHECK (one = 1), last INTEGER NOT NULL) STRICT;
INSERT INTO fences VALUES (1, 0);

-- `number` stands for the session in all other tables and is never given twice.
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    key TEXT,
    fence INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    agent TEXT NOT NULL,
    status TEXT NOT NULL,
    labels TEXT NOT NULL,
    search TEXT NOT NULL,
    active_at INTEGER NOT NULL,
    unsettled INTEGER NOT NULL,
    deleted_at INTEGER,
    state BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX sessions_key ON sessions (key) WHERE key IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX sessions_activity ON sessions (active_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX sessions_unsettled ON sessions (active_at DESC, id DESC) WHERE unsettled = 1;
CREATE INDEX sessions_deleted ON sessions (number) WHERE deleted_at IS NOT NULL;

-- `position` is the feed's position of the commit that the entry came with.
CREATE TABLE entries (
    session INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    position INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    type TEXT NOT NULL,
    at INTEGER NOT NULL,
    turn_id TEXT,
    message_id TEXT,
    data BLOB NOT NULL,
    PRIMARY KEY (session, sequence)
) STRICT, WITHOUT ROWID;

-- One row a commit, in the order of commits: only one connection writes.
CREATE TABLE feed (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL
) STRICT;

-- `accepted` is the sequence at which the message was accepted.
CREATE TABLE messages (
    id TEXT PRIMARY KEY,
    session INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX messages_transcript ON messages (session, generation, accepted, id);

CREATE TABLE bodies (message_id TEXT PRIMARY KEY, body BLOB NOT NULL) STRICT, WITHOUT ROWID;

-- What idempotency keys were spent on.
CREATE TABLE keys (
    session INTEGER NOT NULL,
    key TEXT NOT NULL,
    message_id TEXT NOT NULL,
    digest TEXT,
    PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
    id TEXT PRIMARY KEY,
    session INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    first_sequence INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX turns_session ON turns (session, first_sequence, id);

CREATE TABLE permissions (
    id TEXT PRIMARY KEY,
    session INTEGER NOT NULL,
    state TEXT NOT NULL,
    requested_at INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX permissions_newest ON permissions (requested_at DESC, id DESC);
CREATE INDEX permissions_pending ON permissions (requested_at DESC, id DESC) WHERE state = 'pending';
CREATE INDEX permissions_session ON permissions (session);
