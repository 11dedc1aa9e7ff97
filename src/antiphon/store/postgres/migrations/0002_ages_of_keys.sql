-- When each idempotency key was spent (ms): old ones make room for new ones. Of those that are here already nobody knows,
-- so they count as new.
ALTER TABLE keys ADD COLUMN spent_at bigint NOT NULL DEFAULT 0;
UPDATE keys SET spent_at = (extract(epoch FROM now()) * 1000)::bigint;
