"""Bounds the memory that large group calls take in the process (``limits.group_calls_held_max_bytes``,
``epochgate_large_group_calls_held_bytes``).

The session has to collect a whole group call before it can decode it. Before it collects a large one it reserves memory
for all of it here, and keeps the reservation until the call is answered or forwarded. If none is free the call queues,
and the proxy reads nothing more from that client. Calls up to ``proxy.wire.frame_splitter.STREAM_ABOVE`` bytes need no
reservation: a connection may hold as much anyway.
"""

from collections import deque
from collections.abc import Callable


class Reservation:
    """Memory for one call, in bytes. The call waits until ``granted`` is true."""

    __slots__ = ("_on_granted", "granted", "size")

    def __init__(self, size: int, on_granted: Callable[[], None]) -> None:
        self.size = size
        self.granted = False
        self._on_granted = on_granted

    def grant(self) -> None:
        """Grant the memory and tell whoever waits for it."""
        self.granted = True
        self._on_granted()


class HeldCallsBudget:
    """The memory of one process for large calls: ``most_bytes`` in all."""

    def __init__(self, most_bytes: int) -> None:
        self.taken = 0
        """Bytes that are reserved now."""
        self._max_bytes = most_bytes
        self._waiting: deque[Reservation] = deque()

    def reserve(self, size: int, on_granted: Callable[[], None]) -> Reservation:
        """Reserve ``size`` bytes: at once if they are free and nobody waits, else later, first come, first served.

        ``on_granted`` is called only in the second case. The caller releases the reservation, granted or not.
        """
        reservation = Reservation(min(size, self._max_bytes), on_granted)
        if not self._waiting and self._fits(reservation):
            self.taken += reservation.size
            reservation.granted = True
        else:
            self._waiting.append(reservation)
        return reservation

    def release(self, reservation: Reservation) -> None:
        """Give back a reservation, granted or not; its memory goes to those that wait."""
        if reservation.granted:
            self.taken -= reservation.size
        else:
            self._waiting.remove(reservation)
        self._grant_waiting()

    def resize(self, most_bytes: int) -> None:
        """Have so many bytes from now on. What is granted stays so, even if it is more."""
        self._max_bytes = most_bytes
        self._grant_waiting()

    def _grant_waiting(self) -> None:
        while self._waiting and self._fits(self._waiting[0]):
            following = self._waiting.popleft()
            self.taken += following.size
            following.grant()

    def _fits(self, reservation: Reservation) -> bool:
        # One that waits since there was more memory in all has it alone.
        return self.taken + reservation.size <= max(self._max_bytes, reservation.size)
