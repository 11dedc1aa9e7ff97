"""What an agent's adapter must do, as tests: subclass `AgentContract`, say how to stage yours, and pytest proves it.

    class TestMyAgent(AgentContract):
        @pytest.fixture
        def peer(self, tmp_path):
            return Peer(
                agent=MyAgent("mine", {}),
                cwd=str(tmp_path),
                says=lambda word: f"Say {word} and nothing else.",
                ...
            )

A `Peer` says which prompts make the agent answer, hold, ask, fail or die. What can't be staged stays None: those tests
are skipped, all others run. After every test the suite looks whether `Exited` was said last and once, whether every
turn ended at most once, and whether anything that the agent started is still alive.

The tests are coroutines: anyio's pytest plugin (`anyio_mode = auto`), or another that runs them on asyncio. Register
the package for `pytest.register_assert_rewrite` before it is imported, for readable failures.
"""

from antiphon.testing.agent_contract.ends import EndsContract
from antiphon.testing.agent_contract.people import PeopleContract
from antiphon.testing.agent_contract.staging import Peer
from antiphon.testing.agent_contract.turns import TurnsContract

__all__ = ["AgentContract", "Peer"]


class AgentContract(TurnsContract, PeopleContract, EndsContract):
    """The whole contract. Override the fixture `peer`."""
