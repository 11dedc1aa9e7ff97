"""`antiphon config`: the configuration that the host of this data directory would start with."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from antiphon.cli.context import Context
from antiphon.cli.exits import DONE, FAILED
from antiphon.cli.garbage import collect_as_usual
from antiphon.cli.grammar import Given
from antiphon.cli.listing import fields


def config(context: Context, given: Given) -> int:
    """Check the configuration and show it."""
    # It imports every adapter that is configured, which no other command pays for.
    configured = import_module("antiphon.configured")
    collect_as_usual()
    named = given.optional("config")
    try:
        found = configured.described(Path(context.local.data_dir), Path(named) if named else None)
    except (configured.ConfigError, configured.UnknownAdapter) as error:
        context.out.error(f"antiphon: {error}")
        return FAILED
    if context.out.as_json:
        context.out.document(found)
        return DONE
    file = found["file"] if found["exists"] else f"{found['file']} (there is none; everything has its default)"
    tables = [line for table in ("host", "http", "webhooks") for line in _lines(table, found[table])]
    fields(context.out, [("file", file), ("store", found["store"]), *tables])
    fields(context.out, [(f"agents.{name}", _agent(table)) for name, table in found["agents"].items()])
    return DONE


def _lines(table: str, values: dict[str, Any]) -> list[tuple[str, str]]:
    return [(f"{table}.{name}", json.dumps(value, ensure_ascii=False)) for name, value in values.items()]


def _agent(table: dict[str, Any]) -> str:
    return "\n".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in table.items())
