"""The torture: a real host under load from many processes, killed again and again, and a reading of all it left."""
