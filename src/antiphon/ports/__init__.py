"""What the core's owner needs of the world, as contracts. Implementations prove themselves with `antiphon.testing`."""
