"""The heart: what a session is, which command may do what, what follows. Pure: no I/O, clock, randomness or async."""
