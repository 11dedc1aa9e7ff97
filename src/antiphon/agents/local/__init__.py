"""A small model on this machine: no key and no network. It speaks well enough to try things out, and knows little.

The child process of `antiphon.agents.openai` serves the model to itself, so that a model which takes all of a
processor, or all of the memory that it is allowed, troubles its own session only.
"""

from antiphon.agents.local.adapter import LocalAgent

__all__ = ["LocalAgent"]
