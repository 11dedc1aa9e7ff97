"""What a session's key, and a host's name, may look like."""

import re
import unicodedata

KEY_MAX = 256
HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""As machines are called (RFC 952, RFC 1123), and a little wider."""


def key_problem(key: str) -> str | None:
    """What is wrong with a key, for a person; None when it can be used."""
    if not 1 <= len(key) <= KEY_MAX:
        return f"A key has 1 to {KEY_MAX} characters."
    if key.startswith("ses_"):
        return "A key may not begin with `ses_`: that is how ids begin."
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in key):
        return "A key may not hold control characters."
    return None
