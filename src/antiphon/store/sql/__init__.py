"""What both SQL stores do, as generators of statements: an engine's driver runs them, `sql, args` out, rows in."""
