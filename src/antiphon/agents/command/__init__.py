"""Any program as an agent: the message on its stdin, the answer on its stdout, one process a message."""

from antiphon.agents.command.adapter import CommandAgent

__all__ = ["CommandAgent"]
