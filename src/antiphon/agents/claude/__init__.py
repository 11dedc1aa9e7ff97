"""Claude Code, driven through its native binary: JSON lines on a process of its own for each session.

Source of every fact about the protocol, unless another one is named: runs of Claude Code 2.1.332, the binary in
`claude-agent-sdk`, against `antiphon.testing.model_server`; and that package's own reading of it.
"""

from antiphon.agents.claude.adapter import ClaudeAgent

__all__ = ["ClaudeAgent"]
