"""The real clock and the real ids: the one place that asks the machine for time and randomness."""

import asyncio
import gc
import secrets
import sys
import time


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        await asyncio.sleep(seconds)


class SystemIds:
    """UUIDv7 ids (RFC 9562 section 5.7) as 32 hexadecimal digits behind a prefix.

    They ascend within a process: 12 bits of counter (section 6.2, method 1) follow the millisecond, and when the
    counter is used up, or the clock goes back, the millisecond is taken on from the last one.
    """

    def __init__(self) -> None:
        self._last = 0
        self._random = b""

    def new(self, prefix: str) -> str:
        """A new id such as `msg_0198c5a2…`; later ones compare greater."""
        tick = (time.time_ns() // 1_000_000) << 12
        self._last = max(tick, self._last + 1)
        value = ((self._last >> 12) << 80) | (0x7 << 76) | ((self._last & 0xFFF) << 64)
        value |= (0b10 << 62) | self._bits62()
        return f"{prefix}_{value:032x}"

    def _bits62(self) -> int:
        """Random bits, asked for by the page: one call of the kernel's can cost as much as a whole decision."""
        if len(self._random) < 8:
            self._random = secrets.token_bytes(4096)
        taken, self._random = self._random[:8], self._random[8:]
        return int.from_bytes(taken) >> 2


SWITCH_S = 0.02


def tune_for_serving() -> None:
    """For a process that has started to serve, of whose work nearly all is the event loop's.

    Nearly all that is made for a turn goes without a collector; it took a twelfth of a turn's time to find that out. So
    garbage is looked for less often, and no more among what is there by now, which stays until the end.

    The store's threads give up the interpreter's lock with each statement and ask for it again. The loop is made to
    let go of it after 20 ms instead of 5: before that it is mostly done by itself, and to be interrupted costs a tenth
    of a busy host's time.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    sys.setswitchinterval(SWITCH_S)
