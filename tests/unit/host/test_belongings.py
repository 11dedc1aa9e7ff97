"""What adapters keep of their sessions goes with them, also when a host dies in between."""

from pathlib import Path

import pytest

from antiphon.core.errors import StoreUnavailable
from antiphon.core.session import Session
from antiphon.host.belongings import Belongings
from antiphon.ports.store import StoreDamaged
from antiphon.store.memory import MemoryStore

LIVING, DEAD, DAMAGED = "ses_living", "ses_dead", "ses_damaged"


class Shelf(MemoryStore):
    """A store in which one session is there, and one can't be read."""

    def __init__(self, session: Session, *, away: bool = False) -> None:
        super().__init__(epoch="test")
        self._session = session
        self._away = away

    async def load(self, session_id: str) -> Session | None:
        if self._away:
            raise StoreUnavailable("It is away.")
        if session_id == DAMAGED:
            raise StoreDamaged("It is damaged.")
        return self._session if session_id == LIVING else None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (LIVING, DEAD, DAMAGED, "not_a_session"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "chat.jsonl").touch()
    return tmp_path


def kept(root: Path) -> set[str]:
    return {entry.name for entry in root.iterdir()}


def a_session() -> Session:
    return Session(id=LIVING, agent="chat", created_at=0, active_at=0)


async def test_what_belongs_to_sessions_that_are_gone_is_swept(root: Path) -> None:
    await Belongings(root).sweep(Shelf(a_session()))
    assert kept(root) == {LIVING, DAMAGED, "not_a_session"}


async def test_nothing_is_swept_while_the_store_is_away(root: Path) -> None:
    await Belongings(root).sweep(Shelf(a_session(), away=True))
    assert len(kept(root)) == 4


def test_what_belongs_to_a_session_is_discarded_with_it_and_once_is_enough(root: Path) -> None:
    belongings = Belongings(root)
    assert belongings.of(DEAD) == str(root / DEAD)
    for _ in range(2):
        belongings.discard(DEAD)
    assert kept(root) == {LIVING, DAMAGED, "not_a_session"}


async def test_a_place_is_made_by_who_needs_it_and_none_is_given_where_nothing_is_kept(tmp_path: Path) -> None:
    belongings = Belongings(tmp_path / "none")
    assert not Path(belongings.of(LIVING) or "/").exists()
    await belongings.sweep(Shelf(a_session()))
    nothing = Belongings(None)
    assert nothing.of(LIVING) is None
    nothing.discard(LIVING)
    await nothing.sweep(Shelf(a_session()))
