"""How the configuration describes a program."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec


class CommandOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[agents.NAME]` of an agent with `adapter = "command"`.

    Attributes:
        adapter: Which adapter this is; said by the configuration.
        command: The program and its arguments. It is looked up on the PATH; a relative path starts at the session's
            working directory.
        timeout_s: How long it may take for one message; without one as long as it likes.
        patience_s: How long it may take to end after SIGTERM, when its turn is cancelled or its time is up.
        environment: Further variables of the process.
    """

    adapter: str = "command"
    command: Annotated[list[str], msgspec.Meta(min_length=1)]
    timeout_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    patience_s: Annotated[float, msgspec.Meta(ge=0)] = 2.0
    environment: dict[str, str] = {}

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> "CommandOptions":
        """Check a table of the configuration.

        Raises:
            ValueError: A key is missing or unknown, or has a bad value.
        """
        try:
            return msgspec.convert(dict(table), cls)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error
