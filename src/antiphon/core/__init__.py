"""The heart: what a session is, which command may do what, and what follows. Pure: no I/O, clock, randomness or async."""
