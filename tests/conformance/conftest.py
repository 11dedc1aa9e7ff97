"""Servers that the contracts' implementations need."""

from real_postgres import real_postgres

__all__ = ["real_postgres"]
