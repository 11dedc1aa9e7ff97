"""Endurance: many sessions over several real agents kept busy for a time, with nothing lost and nothing left."""
