"""Any program that speaks the Agent Client Protocol (ACP): JSON-RPC lines on a process of its own for each session.

Source of every fact about the protocol, unless another one is named: the Agent Client Protocol, version 1, schema 1.19
(https://agentclientprotocol.com), and runs of opencode 1.18 and of claude-agent-acp 0.101 against
`antiphon.testing.model_server`.
"""

from antiphon.agents.acp.adapter import AcpAgent

__all__ = ["AcpAgent"]
