"""What every store asks of a commit before it writes anything."""

from antiphon.ports.store import KEYS_SLACK, KEYS_YOUNG_MS, Commit


def require_whole(commit: Commit) -> None:
    """Check that a commit fits together in itself.

    Raises:
        ValueError: Its entries are not the session's, not numbered on from `expected`, or a record is another's.
    """
    session, expected = commit.session, commit.expected
    if session.sequence != expected + len(commit.entries):
        raise ValueError(f"sequence {session.sequence} after {len(commit.entries)} entries on {expected}")
    if session.sequence < 1:
        raise ValueError("a session begins with an event")
    numbers = [entry.sequence for entry in commit.entries]
    if numbers != [*range(expected + 1, session.sequence + 1)]:
        raise ValueError(f"entries that are not numbered on from {expected}")
    if {entry.session_id for entry in commit.entries} - {session.id}:
        raise ValueError(f"an entry of another session in a commit of {session.id}")
    for records in (commit.messages, commit.turns, commit.permissions):
        if any(record.session_id != session.id for record in records):
            raise ValueError(f"a record of another session in a commit of {session.id}")
        if len({record.id for record in records}) != len(records):
            raise ValueError("a record twice in one commit")


def spent_at(commit: Commit) -> int:
    """When the keys of this commit are spent, in ms: the time of its events."""
    return commit.entries[-1].at if commit.entries else 0


def forgets_before(commit: Commit) -> int | None:
    """Keys spent before this time (ms) may go with this commit; None for most commits, which do not look."""
    if commit.expected // KEYS_SLACK == commit.session.sequence // KEYS_SLACK:
        return None
    return spent_at(commit) - KEYS_YOUNG_MS
