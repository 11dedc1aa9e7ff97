"""Webhooks: who is told of ends, how a try is made, when the next one is due."""
