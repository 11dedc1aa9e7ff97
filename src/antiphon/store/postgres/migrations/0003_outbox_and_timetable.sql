-- Webhooks, what is to be told to them, and schedules.

CREATE TABLE webhooks (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    url text NOT NULL,
    target text NOT NULL,
    secret text NOT NULL,
    events text NOT NULL,
    session_id text,
    message_id text,
    description text,
    created_at bigint NOT NULL,
    disabled_at bigint,
    disabled_because text
);
CREATE UNIQUE INDEX webhooks_message ON webhooks (message_id, url) WHERE message_id IS NOT NULL;
CREATE INDEX webhooks_lasting ON webhooks (number) WHERE message_id IS NULL;

-- One row for each webhook and event, ever: made by the commit that holds the event.
CREATE TABLE deliveries (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL,
    webhook_id text NOT NULL,
    target text NOT NULL,
    type text NOT NULL,
    at bigint NOT NULL,
    session_id text NOT NULL,
    message_id text,
    subject bytea NOT NULL,
    state text NOT NULL,
    attempts bigint NOT NULL,
    since bigint NOT NULL,
    next_at bigint NOT NULL,
    settled_at bigint,
    status bigint,
    error text,
    claimed_by text,
    claimed_until bigint NOT NULL,
    UNIQUE (id, webhook_id)
);
CREATE INDEX deliveries_due ON deliveries (target, next_at) WHERE state = 'pending';
CREATE INDEX deliveries_webhook ON deliveries (webhook_id, number);
CREATE INDEX deliveries_dead ON deliveries (number) WHERE state = 'dead';
CREATE INDEX deliveries_settled ON deliveries (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX deliveries_message ON deliveries (message_id) WHERE message_id IS NOT NULL;

CREATE TABLE schedules (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    session text NOT NULL,
    wakes_at bigint,
    version bigint NOT NULL,
    record bytea NOT NULL
);
CREATE INDEX schedules_due ON schedules (wakes_at) WHERE wakes_at IS NOT NULL;
