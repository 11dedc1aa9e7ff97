"""The host's door over HTTP: one module a resource, problem details, server-sent events, tokens."""
