"""`antiphon agent check`: an agent as it is configured, tried out against the model server on this machine."""
