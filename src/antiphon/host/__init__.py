"""The running host: one actor a session, the driver of its agent, fan-out to viewers, recovery, limits, shutdown."""
