"""Signatures are those of Standard Webhooks: its own library accepts them."""

import base64
import time

import pytest
import standardwebhooks

from antiphon.webhooks.signing import new_secret, secret_problem, signed

BODY = b'{"type":"message.ended","data":{"reply":"gr\xc3\xbc\xc3\x9fe"}}'


def test_the_standards_own_library_verifies_what_is_signed() -> None:
    secret = new_secret()

    headers = signed(secret, id="evt_1", at_s=int(time.time()), body=BODY)

    assert standardwebhooks.Webhook(secret).verify(BODY, headers)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(secret).verify(BODY + b" ", headers)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(new_secret()).verify(BODY, headers)


def test_a_signature_is_the_one_of_the_specification() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    headers = signed(secret, id="msg_p5jXN8AQM9LWM0D4loKWxJek", at_s=1614265330, body=b'{"test": 2432232314}')

    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_secrets_are_random_and_of_the_standards_form() -> None:
    secrets = {new_secret() for _ in range(20)}

    assert len(secrets) == 20
    assert all(secret_problem(secret) is None for secret in secrets)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "whsec_***",
        "whsec_é",
        base64.b64encode(b"x" * 32).decode(),
        "whsec_" + base64.b64encode(b"x" * 23).decode(),
        "whsec_" + base64.b64encode(b"x" * 65).decode(),
    ],
)
def test_what_is_no_secret_is_told_without_being_quoted(secret: str) -> None:
    problem = secret_problem(secret)

    assert problem is not None
    assert len(secret) < 10 or secret not in problem
