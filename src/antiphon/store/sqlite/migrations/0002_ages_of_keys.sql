-- When each idempotency key was spent (ms): old ones make room for new ones. Of those that are here already nobody knows,
-- so they count as new.
ALTER TABLE keys ADD COLUMN spent_at INTEGER NOT NULL DEFAULT 0;
UPDATE keys SET spent_at = CAST(strftime('%s', 'now') AS INTEGER) * 1000;
