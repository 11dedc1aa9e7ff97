"""Chaos: three real hosts over one PostgreSQL, loaded through all doors while hosts, lines and the database fail."""
