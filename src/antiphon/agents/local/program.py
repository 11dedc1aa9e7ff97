"""The child process: `antiphon.agents.openai.program`, whose endpoint is a server of its own."""

import importlib
import secrets
from typing import Any

import msgspec

from antiphon.agents.openai import program
from antiphon.agents.openai.protocol import Open
from antiphon.agents.openai.troubles import Failed

QUIET = -1
held: list[object] = []
"""The server: it lives as long as the process."""


def served(settings: Open) -> Open:
    """Load the weights and serve them on loopback, to whoever knows a key that is made up here.

    Raises:
        Failed: They can't be loaded.
    """
    xllamacpp: Any = importlib.import_module("xllamacpp")  # an extension without types
    key = secrets.token_urlsafe(24)
    params = xllamacpp.CommonParams()
    params.model.path = settings.weights
    params.n_ctx = settings.context_tokens + settings.answer_tokens
    params.n_parallel = 1
    params.port = 0
    params.api_keys = [key]
    params.verbosity = QUIET
    params.warmup = False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise Failed(f"The model in {settings.weights} can't be loaded: {error}") from error
    held.append(server)
    return msgspec.structs.replace(
        settings,
        base_url=f"{server.listening_address}/v1",
        headers={"Authorization": f"Bearer {key}"},
        secrets=[*settings.secrets, key],
    )


def main() -> None:
    """Run until the input ends."""
    program.main(served)
