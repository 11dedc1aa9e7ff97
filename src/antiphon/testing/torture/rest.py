"""Waiting until all sessions have come to rest, once nobody asks for anything any more."""

import contextlib
import time
from pathlib import Path

from antiphon.client import ApiError, Client
from antiphon.client.plans import Pace
from antiphon.testing.torture.victim import Troubled

AT_REST = ("idle", "dormant", "errored")
SETTLE_S = 120.0
LOOK_AGAIN_S = 0.2


def settle(data_dir: Path, pace: Pace, within_s: float = SETTLE_S) -> float:
    """Wait until nothing runs or waits (P11); what is still asked is allowed. How long it took, in seconds.

    Raises:
        Troubled: Some session does not come to rest.
    """
    began = time.monotonic()
    with Client.local(data_dir, start=False, pace=pace) as client:
        while True:
            busy = [
                f"{session.id} ({session.status})" for session in client.sessions() if session.status not in AT_REST
            ]
            took_s = time.monotonic() - began
            if not busy:
                return took_s
            if took_s > within_s:
                raise Troubled(f"not at rest after {within_s:g} s: {', '.join(busy)} (P11)")
            for permission in list(client.permissions()):
                with contextlib.suppress(ApiError):
                    client.permission_answer(permission.id, "allow")
            time.sleep(LOOK_AGAIN_S)
