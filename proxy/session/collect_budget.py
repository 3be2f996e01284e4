"""How much of large group calls the process holds in memory at once.

A group call has to be whole before it can be decoded. Before a large one is collected, room for all of it is asked for
here, and it keeps that room until it is answered or passed on. Who finds none waits in line, and nothing more is read
from that client meanwhile. Calls up to ``proxy.wire.frame_splitter.STREAM_ABOVE`` need no room: a connection holds as
much anyway.
"""

from collections import deque
from collections.abc import Callable


class Room:
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


class CollectBudget:
    """The room of one process. ``most_bytes`` is all of it."""

    def __init__(self, most_bytes: int) -> None:
        self.taken = 0
        """Bytes that are taken now."""
        self._most = most_bytes
        self._waiting: deque[Room] = deque()

    def ask(self, size: int, on_granted: Callable[[], None]) -> Room:
        """Room for this many bytes: at once if there is some and nobody waits, else later, in the order of asking.

        ``on_granted`` is called only in the second case. Whoever asks gives the room back, granted or not.
        """
        room = Room(min(size, self._most), on_granted)
        if not self._waiting and self._fits(room):
            self.taken += room.size
            room.granted = True
        else:
            self._waiting.append(room)
        return room

    def give_back(self, room: Room) -> None:
        """The room is not needed any more."""
        if room.granted:
            self.taken -= room.size
        else:
            self._waiting.remove(room)
        while self._waiting and self._fits(self._waiting[0]):
            following = self._waiting.popleft()
            self.taken += following.size
            following.grant()

    def _fits(self, room: Room) -> bool:
        return self.taken + room.size <= self._most
