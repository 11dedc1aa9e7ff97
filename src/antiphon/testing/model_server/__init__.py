"""A model server on loopback that obeys directives in the prompt, so that real agents run with no network and no key.

It speaks what agents speak: OpenAI Responses, OpenAI Chat Completions and Anthropic Messages, each over SSE or as one
JSON answer. What it says is decided by the last message of the user; `antiphon.testing.model_server.script` lists the
directives.

    async with ModelServer() as model:
        ...  # point the agent to f"{model.url}/v1" (OpenAI) or to model.url (Anthropic)
        await model.reached("gate")  # a request stands at [[hold gate]]
        model.release("gate")

`python -m antiphon.testing.model_server --port N` runs one by itself.
"""

from antiphon.testing.model_server.record import Exchange
from antiphon.testing.model_server.server import ModelServer

__all__ = ["Exchange", "ModelServer"]
