"""Signatures of deliveries, as Standard Webhooks 1.0 has them (https://www.standardwebhooks.com)."""

import base64
import binascii
import hashlib
import hmac
import secrets

PREFIX = "whsec_"
BYTES_MIN, BYTES_MAX = 24, 64
"""How long a secret may be: "between 24 bytes (192 bits) and 64 bytes (512 bits)"."""


def new_secret() -> str:
    """A secret of 32 random bytes."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def secret_problem(secret: str) -> str | None:
    """What is wrong with a secret, for a person; None when it can be used. Never quotes it."""
    try:
        key = _key(secret)
    except ValueError:
        key = b""
    if secret.startswith(PREFIX) and BYTES_MIN <= len(key) <= BYTES_MAX:
        return None
    return f"A secret is `{PREFIX}` and the base64 of {BYTES_MIN} to {BYTES_MAX} bytes."


def signed(secret: str, *, id: str, at_s: int, body: bytes) -> dict[str, str]:
    """The headers that prove a delivery: its id, the time of this try in seconds, and the signature over all of it."""
    content = b".".join((id.encode(), str(at_s).encode(), body))
    signature = base64.b64encode(hmac.digest(_key(secret), content, hashlib.sha256)).decode()
    return {"webhook-id": id, "webhook-timestamp": str(at_s), "webhook-signature": f"v1,{signature}"}


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(PREFIX).encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise ValueError("not base64") from error
