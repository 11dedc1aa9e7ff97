"""What must hold, besides all else, where several hosts share a store: a session has one owner that counts."""

from collections.abc import Iterator
from itertools import combinations

from antiphon.testing.simulation.chronicle import Story
from antiphon.testing.simulation.machine import Delivered
from antiphon.testing.simulation.world import World


def check_owners(world: World) -> Iterator[str]:
    """Every promise of owners that was broken."""
    for story in world.shelf.chronicle.stories.values():
        yield from _one_at_a_time(world, story)
        yield from _one_voice(story)


def _one_at_a_time(world: World, story: Story) -> Iterator[str]:
    """Two agents of a session may work at once, where the host of one has lost it: only the other's work counts."""
    counted = [
        each
        for each in world.machine.delivered
        if not each.steered and each.turn_id in story.turns and story.turns[each.turn_id].state == "completed"
    ]
    for one, other in combinations(counted, 2):
        if one.pid != other.pid and _overlap(world, one, other):
            yield f"P1: {one.turn_id} and {other.turn_id} were worked on at once, and both completed"


def _overlap(world: World, one: Delivered, other: Delivered) -> bool:
    ends = world.machine.ended
    return one.at < ends.get(other.turn_id, other.at) and other.at < ends.get(one.turn_id, one.at)


def _one_voice(story: Story) -> Iterator[str]:
    """What is told of a turn comes from one run of an agent."""
    run, runs = None, dict[str, set[str | None]]()
    for entry in story.entries[story.copied :]:
        if entry.type == "agent.started":
            run = entry.data["run_id"]
        elif entry.type == "turn.text" and entry.turn_id:
            runs.setdefault(entry.turn_id, set()).add(run)
    for turn_id, known in runs.items():
        if len(known) > 1:
            yield f"P4: {turn_id} was told by {len(known)} agents"
