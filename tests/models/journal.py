"""The audit of a journal, which is exported for stores and hosts of others too."""

from antiphon.testing.journal import BrokenPromise, Entry, Journal

__all__ = ["BrokenPromise", "Entry", "Journal"]
