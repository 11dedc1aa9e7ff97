"""The agent that says back what it hears and obeys the directives in it: for trying things out, and for tests."""

from antiphon.agents.echo.adapter import EchoAgent

__all__ = ["EchoAgent"]
