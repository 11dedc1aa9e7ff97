"""Logs and metrics: constant messages, ids and numbers; never a prompt, an answer or a secret."""
