"""What is said on stderr while a command waits, so that a person knows what for."""

from collections.abc import Iterable

from antiphon.cli.commands.answers import standing
from antiphon.cli.context import Context
from antiphon.client.documents import Receipt
from antiphon.client.errors import ClientError
from antiphon.client.sync import Client


class Progress:
    """Follows one message, remembers its id, and tells each thing once."""

    def __init__(self, context: Context, message_id: str | None = None) -> None:
        self._out = context.out
        self.message_id = message_id
        self._told: set[str] = set()

    def last(self, client: Client, receipts: Iterable[Receipt]) -> Receipt:
        """Take receipts as they stand, tell what they say, and return the last."""
        latest: Receipt | None = None
        for receipt in receipts:
            self.message_id = receipt.id
            if latest is not None and not receipt.ended:
                self._tell_questions(client, receipt)
            if receipt.state == "queued":
                self._tell(f"{receipt.id} {standing(receipt)}.")
            latest = receipt
        assert latest, "waiting ends with a receipt"
        return latest

    def tell_question(self, permission_id: object, question: object) -> None:
        """A turn does not go on before a person has answered."""
        self._tell(f"The agent asks: {question}\n`antiphon permission allow {permission_id}`, or deny, answers it.")

    def tell_policy(self, permission_id: object, decision: object) -> None:
        """Nobody need answer any more."""
        self._tell(f"The policy here answered {permission_id}: {decision}.")

    def _tell_questions(self, client: Client, receipt: Receipt) -> None:
        """Look whether the turn takes so long because nobody answers what its agent asks."""
        if self._out.quiet or receipt.state != "running":
            return
        try:
            for permission in client.permissions(ref=receipt.session_id):
                if permission.turn_id == receipt.turn_id:
                    self.tell_question(permission.id, permission.question)
        except ClientError:
            return  # a courtesy only: whatever is wrong, the waiting itself will meet it

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._out.note(text)
