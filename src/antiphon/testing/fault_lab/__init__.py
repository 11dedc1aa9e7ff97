"""The fault lab: agents and surroundings that misbehave on demand, at exactly the point that a test names."""
