"""antiphon: the host for agent sessions that never loses, mixes up or doubles an answer."""

__version__ = "0.1.0"
