"""Who is put through the contract suite."""

from collections.abc import Mapping
from typing import Any

import msgspec


class Subject(msgspec.Struct, frozen=True):
    """An agent: its name in the configuration, its adapter (`module:class`, or a built-in one's name), its table."""

    name: str
    adapter: str
    options: Mapping[str, Any]
