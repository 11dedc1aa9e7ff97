"""What a session's key may look like."""

import unicodedata

KEY_MAX = 256


def key_problem(key: str) -> str | None:
    """What is wrong with a key, for a person; None when it can be used."""
    if not 1 <= len(key) <= KEY_MAX:
        return f"A key has 1 to {KEY_MAX} characters."
    if key.startswith("ses_"):
        return "A key may not begin with `ses_`: that is how ids begin."
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in key):
        return "A key may not hold control characters."
    return None
