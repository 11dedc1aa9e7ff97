-- Webhooks, what is to be told to them, and schedules.

CREATE TABLE webhooks (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    url TEXT NOT NULL,
    target TEXT NOT NULL,
    secret TEXT NOT NULL,
    events TEXT NOT NULL,
    session_id TEXT,
    message_id TEXT,
    description TEXT,
    created_at INTEGER NOT NULL,
    disabled_at INTEGER,
    disabled_because TEXT
) STRICT;
CREATE UNIQUE INDEX webhooks_message ON webhooks (message_id, url) WHERE message_id IS NOT NULL;
CREATE INDEX webhooks_lasting ON webhooks (number) WHERE message_id IS NULL;

-- One row for each webhook and event, ever: made by the commit that holds the event.
CREATE TABLE deliveries (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    webhook_id TEXT NOT NULL,
    target TEXT NOT NULL,
    type TEXT NOT NULL,
    at INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    message_id TEXT,
    subject BLOB NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    since INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    settled_at INTEGER,
    status INTEGER,
    error TEXT,
    claimed_by TEXT,
    claimed_until INTEGER NOT NULL,
    UNIQUE (id, webhook_id)
) STRICT;
CREATE INDEX deliveries_due ON deliveries (target, next_at) WHERE state = 'pending';
CREATE INDEX deliveries_webhook ON deliveries (webhook_id, number);
CREATE INDEX deliveries_dead ON deliveries (number) WHERE state = 'dead';
CREATE INDEX deliveries_settled ON deliveries (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX deliveries_message ON deliveries (message_id) WHERE message_id IS NOT NULL;

CREATE TABLE schedules (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    wakes_at INTEGER,
    version INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT;
CREATE INDEX schedules_due ON schedules (wakes_at) WHERE wakes_at IS NOT NULL;
