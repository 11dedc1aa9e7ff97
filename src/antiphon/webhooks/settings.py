"""The configuration of webhooks."""

from typing import Self

import msgspec

from antiphon.webhooks.delivering import Settings
from antiphon.webhooks.plan import Pace
from antiphon.webhooks.targets import Policy, read_networks

DAY_S = 24 * 3600.0
SLACK_S = 30.0
"""How much longer than a try a claim lasts."""


class WebhooksTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[webhooks]`: where deliveries may go, and how long they are tried. Durations are seconds.

    Attributes:
        allowed_networks: Addresses that may be reached although they are not public, such as `127.0.0.0/8`.
        allow_http: Whether a URL may begin with `http://`: everybody on the way can read what is delivered.
        timeout_s: How long a try may take.
        first_pause_s: How long after a first try that failed the second one follows; each pause is three times the
            last, with some chance, up to an hour.
        give_up_after_s: How long after its event a delivery is tried for the last time.
        keep_s: For how long what was delivered or given up stays on the list.
    """

    allowed_networks: tuple[str, ...] = ()
    allow_http: bool = False
    timeout_s: float = 15.0
    first_pause_s: float = 5.0
    give_up_after_s: float = DAY_S
    keep_s: float = 7 * DAY_S

    @classmethod
    def checked(cls, table: object) -> Self:
        """The table of a configuration.

        Raises:
            ValueError, msgspec.ValidationError: It can't be used; the error says what and why.
        """
        read = msgspec.convert(table, cls)
        for name, value in msgspec.structs.asdict(read).items():
            if name.endswith("_s") and not 0 < value < float("inf"):
                raise ValueError(f"webhooks.{name} must be a number of seconds above 0")
        try:
            read_networks(read.allowed_networks)
        except ValueError as error:
            raise ValueError(f"webhooks.allowed_networks: {error}") from error
        return read

    @property
    def policy(self) -> Policy:
        """Which targets are allowed."""
        return Policy(networks=read_networks(self.allowed_networks), http=self.allow_http)

    @property
    def settings(self) -> Settings:
        """How deliveries are made."""
        pace = Pace(first_s=self.first_pause_s, give_up_s=self.give_up_after_s)
        return Settings(pace=pace, claim_s=self.timeout_s + SLACK_S, keep_s=self.keep_s)
