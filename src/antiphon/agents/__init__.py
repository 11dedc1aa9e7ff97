"""The adapters: one package an agent. Each translates between a program and the port; it decides nothing."""
