"""What the core's owner needs from the world, as contracts. Implementations prove themselves with `antiphon.testing`."""
