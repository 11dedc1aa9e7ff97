"""pi, the coding agent, driven through its RPC mode: JSON lines on a process of its own for each session.

Source of every fact about the protocol, unless another one is named: `docs/rpc.md` of the npm package
`@mariozechner/pi-coding-agent` 0.73.1, its code, and runs of it against `antiphon.testing.model_server`.
"""

from antiphon.agents.pi.adapter import PiAgent

__all__ = ["PiAgent"]
