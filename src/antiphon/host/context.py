"""What all actors of a host share."""

import random
from collections.abc import Callable, Mapping

import msgspec

from antiphon.host.belongings import Belongings
from antiphon.host.fanout import Fanout
from antiphon.host.neighbours import Neighbours
from antiphon.host.places import Places
from antiphon.host.settings import HostSettings
from antiphon.ports.agent import Agent
from antiphon.ports.clock import Clock
from antiphon.ports.ids import Ids
from antiphon.ports.store import Store


class Context(msgspec.Struct, kw_only=True):
    """The host's ports and shared state.

    Attributes:
        host_id: The name under which this host claims sessions.
        workspace: Makes the working directory of a session that names none, and returns its absolute path.
        neighbours: The other hosts over the same store; None where there can be none.
        belongings: What adapters keep of their sessions.
        draining: The host goes down: nothing new is taken and no turn starts.
        patience_s: How long an agent may take to end politely; 0 once the host is in a hurry.
        grace_s: How long an agent may take to stop its turn by itself.
    """

    host_id: str
    store: Store
    clock: Clock
    ids: Ids
    agents: Mapping[str, Agent]
    settings: HostSettings
    places: Places
    fanout: Fanout
    random: random.Random
    workspace: Callable[[str], str]
    neighbours: Neighbours | None = None
    belongings: Belongings = msgspec.field(default_factory=lambda: Belongings(None))
    environment: Callable[[], Mapping[str, str]]
    draining: bool = False
    patience_s: float = 3.0
    grace_s: float = 5.0
