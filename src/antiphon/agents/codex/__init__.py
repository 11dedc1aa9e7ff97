"""Codex, driven through `codex app-server`: JSON-RPC lines on a process of its own for each session.

Source of every fact about the protocol, unless another one is named: Codex 0.163, by `codex app-server
generate-json-schema --experimental` and by runs of the real binary against `antiphon.testing.model_server`.
"""

from antiphon.agents.codex.adapter import CodexAgent

__all__ = ["CodexAgent"]
