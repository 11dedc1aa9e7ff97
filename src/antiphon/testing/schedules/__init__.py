"""Random schedules: eight clients at one session of a real host, in every mode, and what each was told afterwards.

    python -m antiphon.testing.schedules --schedules 1000

Each schedule is drawn from a seed of its own: who sends what when, in which mode, and who edits, withdraws, reorders,
cancels, pauses. When it is over every receipt must have ended, every answer must hold its own message's token and no
other, and the journal must show the order that was promised.
"""

from antiphon.testing.schedules.checks import findings
from antiphon.testing.schedules.schedule import Played, play

__all__ = ["Played", "findings", "play"]
