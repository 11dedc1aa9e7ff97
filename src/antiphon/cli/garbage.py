"""When garbage is collected. A command makes thousands of objects by importing, no garbage, and is over.

Collecting it nevertheless would be a tenth of a short command's time; a host lives long and collects as usual.
"""

import gc

USUAL = gc.get_threshold()
SELDOM = (50_000, *USUAL[1:])


def collect_seldom() -> None:
    """For a command. One that goes on for long still collects."""
    gc.set_threshold(*SELDOM)


def collect_as_usual() -> None:
    """For a host."""
    gc.set_threshold(*USUAL)
