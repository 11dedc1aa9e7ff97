"""How an answer is given: the reply alone on stdout, what else there is to say on stderr, and the exit code."""

from antiphon.cli.exits import DONE, ENDS, WAIT_ENDED
from antiphon.cli.output import Output
from antiphon.client.documents import Problem, Receipt, Turn


def give(out: Output, outcome: Receipt | Turn, *, said: str | None = None) -> int:
    """Print a message's or turn's outcome as it stands. `said` is what a stream has printed of the reply already."""
    code = ENDS.get(outcome.state, WAIT_ENDED)
    if out.as_json:
        out.document(outcome.document)
    elif said is not None:
        _finish(out, outcome, said, answered=code == DONE)
    elif code == DONE:
        out.answer((outcome.reply or "") + "\n")
    _tell(out, outcome, code)
    return code


def _finish(out: Output, outcome: Receipt | Turn, said: str, *, answered: bool) -> None:
    """Print what a stream did not get to, and end the line."""
    reply = outcome.reply or ""
    rest = reply[len(said) :] if reply.startswith(said) else ""
    if said or answered:
        out.answer(f"{rest}\n")
    if outcome.ended and not reply.endswith(said):
        out.note(f"Pieces of this answer were lost on the way; `{_show(outcome)}` prints it whole.")


def _tell(out: Output, outcome: Receipt | Turn, code: int) -> None:
    kind = "message" if isinstance(outcome, Receipt) else "turn"
    if code == DONE:
        return
    if code == WAIT_ENDED:
        out.error(
            f"{outcome.id} {standing(outcome)}; it goes on. `antiphon {kind} wait {outcome.id}` waits for its end."
        )
        return
    reason = _reason(outcome.error)
    kept = f" What was said until then: `{_show(outcome)}`." if outcome.reply and not out.as_json else ""
    out.error(f"{outcome.id} {'was ' if outcome.state != 'failed' else ''}{outcome.state}{reason}{kept}")


def standing(outcome: Receipt | Turn) -> str:
    """What an outcome that is none yet waits for, in words."""
    if isinstance(outcome, Receipt) and outcome.state == "queued":
        place = f" at place {outcome.position}" if outcome.position else ""
        return f"waits{place}" + (f" ({outcome.waiting_for})" if outcome.waiting_for else "")
    return "is running"


def _reason(error: Problem | None) -> str:
    return f": {error.detail or error.code}" if error else "."


def _show(outcome: Receipt | Turn) -> str:
    return f"antiphon {'message' if isinstance(outcome, Receipt) else 'turn'} show {outcome.id}"
