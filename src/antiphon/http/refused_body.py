"""The refusal of a body that is too large, which must reach a client that is still sending it."""

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from antiphon.core.errors import TooLarge
from antiphon.http import problems


class LingeringRefusal(Response):
    """Answers at once, then throws away what still comes, for a while, and closes the connection.

    Closing at once would reset the connection while the client sends, and a reset can make it lose the answer (RFC 9112
    section 9.6).
    """

    def __init__(self, error: TooLarge, seconds: float) -> None:
        refusal = problems.refusal(error, {"connection": "close"})
        super().__init__(refusal.body, refusal.status_code)
        self.raw_headers = refusal.raw_headers
        self._seconds = seconds

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        try:
            async with asyncio.timeout(self._seconds):
                while (await receive()).get("more_body", False):
                    pass
        except TimeoutError:
            pass  # whoever sends for so long has had time to read
        await send({"type": "http.response.body", "body": b"", "more_body": False})
