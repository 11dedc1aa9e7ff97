"""What an agent's process gets to see of the host's environment, and what of it must never be shown."""

import os
import re
from collections.abc import Mapping

from antiphon.ports.agent import AgentSpec

KEPT = frozenset({"PATH", "HOME", "LANG", "LANGUAGE", "TERM", "TMPDIR", "USER", "LOGNAME", "SHELL", "TZ"})
KEPT_PREFIXES = ("LC_", "SSL_CERT_")
OWN_PREFIX = "ANTIPHON_"
TOLD = frozenset({"ANTIPHON_SESSION_ID", "ANTIPHON_SESSION_KEY", "ANTIPHON_TURN_ID"})
SECRET_NAME = re.compile("KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
SHORTEST_SECRET = 4


def clean_environment(extra: Mapping[str, str] | None = None, host: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of an agent: what every program needs, and what the configuration adds. No secret of the host's.

    Args:
        extra: Additions, which win. Names that begin with `ANTIPHON_` are dropped, but for the documented
            `ANTIPHON_SESSION_ID`, `ANTIPHON_SESSION_KEY` and `ANTIPHON_TURN_ID`.
        host: The host's own environment; `os.environ` when not given.
    """
    own = os.environ if host is None else host
    kept = {name: value for name, value in own.items() if name in KEPT or name.startswith(KEPT_PREFIXES)}
    added = {name: value for name, value in (extra or {}).items() if name in TOLD or not name.startswith(OWN_PREFIX)}
    return kept | added


def session_variables(spec: AgentSpec) -> dict[str, str]:
    """What the agent, and the programs that it runs, may know of the session."""
    told = {"ANTIPHON_SESSION_ID": spec.session_id, "ANTIPHON_SESSION_KEY": spec.session_key}
    return {name: value for name, value in told.items() if value is not None}


def secrets_of(environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """The values in an agent's environment that look secret by their names, the longest first."""
    found = {
        value.encode(errors="surrogateescape")
        for name, value in environment.items()
        if SECRET_NAME.search(name) and name not in TOLD and len(value) >= SHORTEST_SECRET
    }
    return tuple(sorted(found, key=lambda value: (-len(value), value)))
