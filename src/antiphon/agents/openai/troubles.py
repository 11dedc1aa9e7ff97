"""What went wrong, in words for a person."""

from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec

from antiphon.agents.openai.completion import Chunk

DETAIL_MAX = 2_000
EXCERPT = 500
SHORTEST_SECRET = 4
ADVICE = {
    401: "The key is missing or not accepted. See the `api_key_env` option of this agent.",
    403: "The key may not do this. See the `api_key_env` option of this agent.",
    404: "See the `base_url` and `model` options of this agent.",
    429: "The model is asked too often, or the account's limit is reached. Try again later.",
}
OVERFULL = ("context length", "context_length", "context size", "context window", "maximum context", "too many tokens")
TOO_FULL = "Set this agent's `context_tokens` lower: so much does not fit into the model."


class Failed(Exception):
    """The turn can't go on. The text is for a person."""


class TooLong(Failed):
    """What was said does not fit into what is sent; nothing was sent."""


def refused(status: int, body: bytes) -> str:
    """The server answered with an error."""
    words = _words(body)
    said = f"The model's server answered {status}" + (f": {words.rstrip('.')}." if words else ".")
    if any(sign in words.lower() for sign in OVERFULL):
        return f"{said} {TOO_FULL}"
    advice = ADVICE.get(status, "The model's server has trouble. Try again later." if status >= 500 else "")
    return f"{said} {advice}".strip()


def unreachable(base_url: str, error: Exception) -> str:
    """No connection, or one that failed."""
    why = (str(error) or type(error).__name__).rstrip(".")
    place = urlsplit(base_url)
    address = f"{place.scheme}://{place.netloc.rpartition('@')[2]}"
    return f"The model's server at {address} could not be reached: {why}."


def retrying(why: str, delay_s: float, attempt: int, attempts: int) -> str:
    """The request is made again."""
    return f"{why} It is asked again in {delay_s:.1f} s ({attempt} of {attempts})."


def redacted(text: str, secrets: Iterable[str]) -> str:
    """A text without any of the secrets, of bounded length."""
    for secret in sorted(filter(lambda each: len(each) >= SHORTEST_SECRET, secrets), key=len, reverse=True):
        text = text.replace(secret, "[redacted]")
    return text[:DETAIL_MAX]


def _words(body: bytes) -> str:
    """What the server says is wrong: as JSON in one of the usual forms, or as the beginning of what it says."""
    try:
        error = msgspec.json.decode(body, type=Chunk).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        error = None
    if isinstance(error, str):
        return error
    if error is not None and error.message:
        return error.message
    return " ".join(body[:EXCERPT].decode(errors="replace").split())
