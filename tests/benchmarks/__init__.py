"""Speed as ratios: each figure against a floor that is measured beside it in the same run."""
