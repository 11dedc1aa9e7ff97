"""Profiles for Hypothesis: `HYPOTHESIS_PROFILE=long` searches for minutes, at random; without it the search is short
and always the same. `mutants` stops at the first flaw and does not explain it.
"""

import os

from hypothesis import HealthCheck, Phase, settings

common = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", common, derandomize=True, max_examples=60, stateful_step_count=50)
settings.register_profile("long", common, max_examples=5000, stateful_step_count=120, print_blob=True)
settings.register_profile("mutants", settings.get_profile("default"), phases=[Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
