"""A place from which webhooks are told, for tests."""
