"""The command line: a client of the HTTP door that prints answers to stdout and everything else to stderr."""
