"""The schema of the PostgreSQL store, step by step."""
