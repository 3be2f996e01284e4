"""The lag of groups for the pages and ``/api/groups``: brokers are asked while somebody looks, and not otherwise."""

from collections.abc import Callable, Collection

import trio

from proxy.groups.lag.reader import LagReader
from proxy.groups.lag.readings import GroupLag

EVERY_S = 10.0
"""Between two readings. A page comes for the groups every two seconds."""


class ShownLags:
    """Reads the lag of the groups that ``group_ids`` names, with the account of ``reader``. :meth:`run` runs beside."""

    def __init__(self, reader: LagReader, group_ids: Callable[[], Collection[str]]) -> None:
        self._reader = reader
        self._group_ids = group_ids
        self._wanted = trio.Event()

    def look(self) -> None:
        """Somebody looks: have the lags read."""
        self._wanted.set()

    def of(self, group_id: str) -> int | None:
        """Return the lag of a group in records; None if it is not known, or a partition's is not."""
        reading = self._reader.known((group_id,))[group_id]
        if not isinstance(reading, GroupLag) or not reading.partitions or reading.unknown_partitions:
            return None
        return reading.lag

    async def run(self) -> None:
        """Read whenever somebody has looked since, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            await self._reader.read(self._group_ids())
            await trio.sleep(EVERY_S)
