"""The schema of the SQLite store, step by step."""
