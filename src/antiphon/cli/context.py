"""What every command is given: where the host is, how to reach it, and where to print."""

import os
from typing import TYPE_CHECKING

from antiphon.cli.grammar import Given, UsageError
from antiphon.cli.output import Output
from antiphon.client.local import LocalHost
from antiphon.client.plans import Pace
from antiphon.client.sync import Client

if TYPE_CHECKING:
    from antiphon.client import AsyncClient

DEFAULT_LIMIT = 50
PACE = Pace(slice_s=10)
"""Every slice of a wait is a chance to tell a person what it waits for."""


class Context:
    """One run of the command line."""

    def __init__(self, given: Given) -> None:
        self.out = Output(as_json=given.flag("json"), quiet=given.flag("quiet"), colour=not given.flag("no_color"))
        self._token = given.optional("token") or os.environ.get("ANTIPHON_TOKEN") or None
        self._url = given.optional("url")
        environment_url = os.environ.get("ANTIPHON_URL") or None
        if self._url is None and given.optional("data_dir") is None:
            self._url = environment_url
        self._start = not given.flag("no_start") and environment_url is None
        self.local = LocalHost(given.optional("data_dir"), token=self._token)

    @property
    def url(self) -> str | None:
        """The address that was given; None when the host is this machine's."""
        return self._url

    @property
    def token(self) -> str | None:
        """The token that was given, for a host that is not this machine's."""
        return self._token

    def client(self) -> Client:
        """A client of the host, which is started in the background if that is allowed and need be.

        Raises:
            HostNotReached: There is none.
        """
        if self._url is not None:
            return Client(self._url, self._token, pace=PACE)
        return Client.local(self.local.data_dir, start=self._start, token=self._token, pace=PACE)

    async def async_client(self, pace: Pace) -> "AsyncClient":
        """The async twin of `client`, for what draws on the terminal."""
        from antiphon.client import AsyncClient  # noqa: PLC0415  httpx2 costs 190 ms

        if self._url is not None:
            return AsyncClient(self._url, self._token, pace=pace)
        return await AsyncClient.local(self.local.data_dir, start=self._start, token=self._token, pace=pace)

    def directory(self, given: Given) -> str | None:
        """The directory that an agent shall work in: absolute, as the host may run elsewhere.

        Without `--cwd` it is this one, if the host is on this machine.
        """
        directory = given.optional("cwd")
        if self._url is not None:
            return directory
        return os.path.abspath(os.path.expanduser(directory or "."))  # noqa: PTH100, PTH111  see antiphon.client.local


def read_stdin() -> str:
    """All of stdin as text.

    Raises:
        UsageError: It is not UTF-8.
    """
    import sys  # noqa: PLC0415

    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin is not UTF-8 text (byte {error.start})") from None
