"""What an actor takes in, decides and commits: commands that wait, batches that were decided, and what is written."""

import asyncio
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from antiphon.core import commands as c
from antiphon.core import errors
from antiphon.core import events as e
from antiphon.core.decide import Refused
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.core.step import Step, Taken
from antiphon.ports.store import Commit, NewText


class Pending(msgspec.Struct, frozen=True):
    """A command in the mailbox. One without an `answer` comes from the agent or the host and must not be lost."""

    command: c.Command
    answer: "asyncio.Future[Accepted] | None" = None


class Made(msgspec.Struct, frozen=True):
    """A batch, decided: what is written for it, what became of each of its commands, and under which claim."""

    batch: list[Pending]
    step: Step
    taken: list[Taken]
    fence: int | None


class Accepted(msgspec.Struct, frozen=True):
    """A command was carried out and is durable.

    Attributes:
        session: The session after it, and after what was committed with it.
        message: The message that it made, likewise.
        repeats: The id of the message that was made of it before.
        ended: The ids of the messages that it ended at once.
    """

    session: Session
    message: Message | None = None
    repeats: str | None = None
    ended: tuple[str, ...] = ()


def commit_of(made: Made) -> Commit:
    """What is written for a batch."""
    step = made.step
    assert step.session is not None, "a step with entries has a session"
    records = step.records.values()
    return Commit(
        session=step.session,
        expected=step.before.sequence if step.before else 0,
        entries=tuple(step.entries),
        messages=tuple(record for record in records if isinstance(record, Message)),
        turns=tuple(record for record in records if isinstance(record, Turn)),
        permissions=tuple(record for record in records if isinstance(record, Permission)),
        texts=new_texts(step.notable),
        fence=made.fence,
    )


def new_texts(events: Iterable[e.Event]) -> tuple[NewText, ...]:
    """What persons wrote in these events; of a message that was accepted and edited at once, one text."""
    texts: dict[str, NewText] = {}
    for event in events:
        if isinstance(event, e.MessageAccepted):
            texts[event.message_id] = NewText(
                message_id=event.message_id,
                text=event.text,
                files=event.files,
                idempotency_key=event.idempotency_key,
                digest=event.digest,
            )
        elif isinstance(event, e.MessageEdited) and event.text is not None:
            before = texts.get(event.message_id) or NewText(message_id=event.message_id, text="")
            texts[event.message_id] = replace(before, text=event.text)
    return tuple(texts.values())


def ended_by(events: Iterable[e.Event]) -> tuple[str, ...]:
    """The ids of the messages that end with these events."""
    return tuple(event.message_id for event in events if isinstance(event, e.MessageEnded))


def of_clients(batch: Iterable[Pending]) -> list[Pending]:
    """The commands of clients. What an agent said, and what an owner's host knows, is no guest's to tell."""
    return [pending for pending in batch if pending.answer is not None]


def leaves_a_client(made: Made) -> bool:
    """Whether a client's command changes nothing: it is refused, or there is nothing to do."""
    told = zip(made.batch, made.taken, strict=True)
    return any(isinstance(outcome, Refused) or not outcome for pending, outcome in told if pending.answer is not None)


def unknown(error: errors.StoreUnavailable) -> errors.StoreUnavailable:
    """The same, for who has to be told that it may have been done."""
    return errors.StoreUnavailable(error.detail, retry_after_s=error.retry_after_s, in_doubt=True)


def going_down() -> errors.Draining:
    """What clients are told whose command came too late."""
    return errors.Draining("The host is shutting down. Try again once it has started anew.", retry_after_s=5)


def fail(pending: Pending, error: BaseException) -> None:
    """Tell whoever waits for this command, if anybody still does."""
    if pending.answer is not None and not pending.answer.done():
        pending.answer.set_exception(error)
