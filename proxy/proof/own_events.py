"""Feeds the events of this process to the live verification, as one more destination of its journal.

So they wait in a bounded queue, off the path of calls, and what does not fit is a gap in their numbers, as in a file.
"""

from collections.abc import Awaitable, Callable

import msgspec

from proxy.journal.journal import JournalEvent

Taken = Callable[[list[bytes | None]], Awaitable[None]]


class OwnEvents:
    """See :class:`proxy.journal.journal.Sink`. ``take`` gets the lines, ``idle`` is called when all are taken."""

    name = "proof"

    def __init__(self, take: Taken, idle: Callable[[], None]) -> None:
        self._take = take
        self._idle = idle
        self._encode = msgspec.json.Encoder().encode

    async def write(self, events: list[JournalEvent]) -> None:
        """Take events."""
        await self._take([self._encode(event) for event in events])

    async def idle(self) -> None:
        """Nothing waits."""
        self._idle()

    async def close(self) -> None:
        """Nothing to close."""
