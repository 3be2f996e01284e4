"""How much of large group calls the process holds in memory at once.

A group call has to be whole before it can be decoded. Before a large one is collected, room for all of it is asked for
here, and it keeps that room until it is answered or passed on. Who finds none waits in line, and nothing more is read
from that client meanwhile. Calls up to ``proxy.wire.frame_splitter.STREAM_ABOVE`` need no room: a connection holds as
much anyway.
"""

from collections import deque
from collections.abc import Callable


class Reservation:
    """The room of one call. ``granted`` says whether it has it; before, it waits for it."""

    __slots__ = ("_on_granted", "granted", "size")

    def __init__(self, size: int, on_granted: Callable[[], None]) -> None:
        self.size = size
        self.granted = False
        self._on_granted = on_granted

    def grant(self) -> None:
        """The room is there now; tell who waits for it."""
        self.granted = True
        self._on_granted()


class HeldCallsBudget:
    """The room of one process. ``most_bytes`` is all of it."""

    def __init__(self, most_bytes: int) -> None:
        self.taken = 0
        """Bytes that are taken now."""
        self._max_bytes = most_bytes
        self._waiting: deque[Reservation] = deque()

    def reserve(self, size: int, on_granted: Callable[[], None]) -> Reservation:
        """Room for this many bytes: at once if there is some and nobody waits, else later, in the order of asking.

        ``on_granted`` is called only in the second case. Whoever asks gives the room back, granted or not.
        """
        reservation = Reservation(min(size, self._max_bytes), on_granted)
        if not self._waiting and self._fits(reservation):
            self.taken += reservation.size
            reservation.granted = True
        else:
            self._waiting.append(reservation)
        return reservation

    def release(self, reservation: Reservation) -> None:
        """The room is not needed any more."""
        if reservation.granted:
            self.taken -= reservation.size
        else:
            self._waiting.remove(reservation)
        while self._waiting and self._fits(self._waiting[0]):
            following = self._waiting.popleft()
            self.taken += following.size
            following.grant()

    def _fits(self, reservation: Reservation) -> bool:
        return self.taken + reservation.size <= self._max_bytes
