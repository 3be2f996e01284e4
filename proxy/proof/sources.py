"""Where the events of all replicas come from, and which replica reads them."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import NamedTuple

from translation.member_log.replicas import Replica, Replicas


class Read(NamedTuple):
    """What was read: lines, and until when everything that was written is read, in milliseconds since 1970.

    ``is_at_end`` says whether that is now.
    """

    lines: list[bytes | None]
    until_ms: int
    is_at_end: bool


class JournalUnreadable(Exception):
    """The topic can't be read, or not any more; the message says why."""


ReadNext = Callable[[], Awaitable[Read]]
"""Returns what comes next; raises JournalUnreadable."""

Open = Callable[[], AbstractAsyncContextManager[ReadNext]]
"""Opens the journal's topic; raises JournalUnreadable."""


class Election(NamedTuple):
    """Which replica reads the journal's topic. ``is_own_turn`` says whether it is this one; ``name`` is who it is."""

    lowest: Callable[[], Replica | None]
    own: Callable[[], Replica]

    @classmethod
    def among(cls, replicas: Replicas, own: Callable[[], Replica]) -> "Election":
        """Of the replicas that are not silent in the member log, the one whose id is the lowest."""
        return cls(partial(_lowest, replicas), own)

    @classmethod
    def alone(cls, name: str) -> "Election":
        """There is only this one."""
        replica = Replica(b"", name)  # type: ignore[arg-type]
        return cls(lambda: replica, lambda: replica)

    def is_own_turn(self) -> bool:
        """Whether this replica reads the topic."""
        lowest = self.lowest()
        return lowest is not None and lowest.first == self.own().first

    @property
    def name(self) -> str:
        """Return the name of the server of the replica that reads it, empty if it is not known."""
        lowest = self.lowest()
        return "" if lowest is None else lowest.server


def _lowest(replicas: Replicas) -> Replica | None:
    heard = [one.replica for one in replicas.all() if one.at_ms and not replicas.is_silent(one)]
    return min(heard, key=lambda one: one.first, default=None)
