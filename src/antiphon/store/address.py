"""Where a store is, as people write it: a data directory, or the address of a PostgreSQL database."""

from urllib.parse import parse_qsl, urlencode, urlsplit

SCHEMES = ("postgresql", "postgres")
HIDDEN = "[hidden]"


def is_postgres(address: str) -> bool:
    """Whether it is the address of a database; anything else is a path or a word."""
    return address.partition("://")[0] in SCHEMES and "://" in address


def shown(address: str) -> str:
    """An address as it may be printed: without its password."""
    if "://" not in address:
        return address
    try:
        parts = urlsplit(address)
    except ValueError:
        return f"{address.partition('://')[0]}://{HIDDEN}"
    person, at, place = parts.netloc.rpartition("@")
    name, colon, _ = person.partition(":")
    hidden = {key: HIDDEN if "password" in key.lower() else value for key, value in parse_qsl(parts.query)}
    query = f"?{urlencode(hidden, safe='[]/,:')}" if hidden else ""
    return f"{parts.scheme}://{name}{colon and f':{HIDDEN}'}{at}{place}{parts.path}{query}"
