"""What of an answer has been said, so that every word of it is said once."""

SEPARATOR = "\n\n"


class Reply:
    """The answer of one turn while it comes: several messages, each in pieces, each once more as a whole.

    Messages are set apart by an empty line. When a message breaks off (the connection to the model breaks, or a steer
    comes in between), Codex asks again, and the model may say the same once more under another id: what it repeats word
    for word is left out.
    """

    def __init__(self) -> None:
        self._heard: dict[str, str] = {}
        """What came of each message that is not complete."""
        self._finished: set[str] = set()
        self._last: str | None = None
        self._repeated = ""
        """What was said of a message that broke off and may now come again."""
        self._said_anything = False

    def piece(self, message_id: str, text: str) -> str:
        """A piece of a message came; returns what is to be said now, perhaps nothing."""
        if message_id in self._finished or not text:
            return ""
        first = message_id != self._last
        self._last = message_id
        self._heard[message_id] = self._heard.get(message_id, "") + text
        if self._repeated:
            return self._beyond_repetition(self._heard[message_id])
        return self._apart(text) if first else self._say(text)

    def whole(self, message_id: str, text: str) -> str:
        """A message is complete; returns what of it has not been said yet."""
        heard = self._heard.get(message_id, "")
        said = self.piece(message_id, text[len(heard) :] if text.startswith(heard) else "")
        self._finish(message_id)
        self._repeated = ""
        return said

    def broke_off(self) -> None:
        """What is not complete will not be completed; it may come again from its beginning."""
        if self._last in self._heard:
            self._repeated = self._repeated or self._heard[self._last]
        for message_id in tuple(self._heard):
            self._finish(message_id)

    def _finish(self, message_id: str) -> None:
        self._heard.pop(message_id, None)
        self._finished.add(message_id)

    def _beyond_repetition(self, heard: str) -> str:
        if self._repeated.startswith(heard):
            return ""
        repeated, self._repeated = self._repeated, ""
        if heard.startswith(repeated):
            return self._say(heard[len(repeated) :])
        return self._apart(heard)

    def _apart(self, text: str) -> str:
        return self._say(SEPARATOR + text if self._said_anything else text)

    def _say(self, text: str) -> str:
        self._said_anything = True
        return text
