"""Servers and names that the stores' tests need."""

import itertools

import pytest

from real_postgres import real_postgres

__all__ = ["real_postgres"]

_numbers = itertools.count(1)


@pytest.fixture
def schema() -> str:
    """The name of a schema that no other test uses."""
    return f"test_{next(_numbers)}"
