"""A real host in this process, whose store, agent and death are in a test's hands."""
