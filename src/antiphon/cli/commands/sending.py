"""`antiphon session message`: the command that is run most."""

import os
import sys
from typing import Any

from antiphon.cli.commands.answers import give
from antiphon.cli.commands.waiting import Progress
from antiphon.cli.context import Context, read_stdin
from antiphon.cli.exits import DONE, INTERRUPTED
from antiphon.cli.grammar import Given, UsageError
from antiphon.client.documents import Event, Json, Receipt
from antiphon.client.errors import ConnectionLost, HostNotReached
from antiphon.client.exchanges import check_idempotency_key
from antiphon.client.exchanges import given as only_given
from antiphon.client.keys import new_key
from antiphon.client.sync import Client

SHORTEST_S = 0.001


def message(context: Context, given: Given) -> int:
    """Send a message and give its answer."""
    sending = Sending(context, given)
    try:
        with context.client() as client:
            if given.flag("stream") and not context.out.as_json:
                return sending.stream(client)
            return sending.send(client)
    except KeyboardInterrupt:
        sending.tell_what_goes_on()
        return INTERRUPTED
    except HostNotReached as error:
        if sending.progress.message_id or isinstance(error, ConnectionLost):
            sending.tell_what_goes_on()
        raise


class Sending:
    """One message on its way, and what is known of it."""

    def __init__(self, context: Context, given: Given) -> None:
        self._out = context.out
        self._ref, self._text = given.text("ref"), text(given)
        self._key = _key(given.optional("idempotency_key"))
        self._wait_s = 0.0 if given.flag("no_wait") else given.number("timeout")
        self._no_wait = given.flag("no_wait")
        if self._no_wait and (given.flag("stream") or given.number("timeout") is not None):
            raise UsageError("--no-wait does not go with --stream or --timeout")
        self._how: dict[str, Any] = {
            "when_busy": given.optional("when_busy"),
            "wait_s": self._wait_s,
            "idempotency_key": self._key,
            "files": _files(context, given.many("file")),
            "create": _birth(context, given),
            "sender": given.optional("sender"),
            "deadline_s": _deadline(given),
        }
        self.progress = Progress(context)
        self._begun = False

    def send(self, client: Client) -> int:
        """Send, wait as long as was asked, and give what came of it."""
        self._begun = True
        receipt = self.progress.last(client, client.sending(self._ref, self._text, **self._how))
        if receipt.ended or not self._no_wait:
            return give(self._out, receipt)
        if self._out.as_json:
            self._out.document(receipt.document)
        else:
            self._out.line(receipt.id)
        return DONE

    def stream(self, client: Client) -> int:
        """Send, print the answer as it is said, and end its line."""
        self._begun, said = True, list[str]()
        receipt: Receipt | None = None
        try:
            for told in client.stream(self._ref, self._text, **self._how):
                if isinstance(told, Receipt):
                    receipt = told
                else:
                    self._take(told, said)
        except BaseException:
            if said:
                self._out.answer("\n")
            raise
        assert receipt, "a stream ends with the receipt"
        return give(self._out, receipt, said="".join(said))

    def tell_what_goes_on(self) -> None:
        """Whoever stops waiting is told how to find the message again."""
        message_id = self.progress.message_id
        if message_id:
            self._out.error(f"{message_id} goes on; `antiphon message wait {message_id}` waits for its end.")
        elif self._begun:
            self._out.error(f"It may have been accepted: the same line with --idempotency-key {self._key} finds out.")

    def _take(self, event: Event, said: list[str]) -> None:
        self.progress.message_id = self.progress.message_id or event.message_id
        if event.type == "turn.text":
            piece = str(event.data.get("text", ""))
            said.append(piece)
            self._out.answer(piece)
        elif event.type == "permission.requested":
            self.progress.tell_question(event.data.get("permission_id"), event.data.get("question"))
        elif event.type == "permission.answered" and event.data.get("by") == "policy":
            self.progress.tell_policy(event.data.get("permission_id"), event.data.get("decision"))


def text(given: Given) -> str:
    """The text of a message, from the line or from stdin.

    Raises:
        UsageError: There is none.
    """
    given_text = given.optional("text")
    if given_text is None and sys.stdin.isatty():
        raise UsageError("say what to send: TEXT, or - to read it from stdin")
    if given_text in (None, "-"):
        read = read_stdin()
        given_text = read.removesuffix("\n").removesuffix("\r") if read.endswith("\n") else read
    if not given_text:
        raise UsageError("the message is empty")
    return given_text


def _key(given_key: str | None) -> str:
    if given_key is None:
        return new_key()
    try:
        check_idempotency_key(given_key)
    except ValueError as error:
        raise UsageError(f"--idempotency-key: {error}") from None
    return given_key


def _deadline(given: Given) -> Json | None:
    parts = {"total": "deadline", "waiting": "deadline_waiting", "running": "deadline_running"}
    limits = {part: given.number(name) for part, name in parts.items()}
    for part, seconds in limits.items():
        if seconds is not None and seconds < SHORTEST_S:
            raise UsageError(f"--{parts[part].replace('_', '-')} takes a number of seconds above 0")
    return only_given(**limits) or None


def _files(context: Context, paths: list[str]) -> list[Json]:
    """Files by their absolute paths. They are looked for only where the host is on this machine."""
    files: list[Json] = []
    for path in paths:
        absolute = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111  see antiphon.client.local
        if context.url is None and not os.access(absolute, os.R_OK):
            raise UsageError(f"--file {path}: it can't be read")
        files.append({"path": absolute})
    return files


def _birth(context: Context, given: Given) -> Json | None:
    """What to start a session from when the key has none."""
    agent = given.optional("agent")
    if agent is None:
        if given.optional("cwd") or given.optional("model"):
            raise UsageError("--cwd and --model are for a session that is started: say --agent NAME too")
        return None
    return only_given(agent=agent, cwd=context.directory(given), model=given.optional("model"))
