"""The lag of groups as gates judge it, and as the pages and ``/api/groups`` show it: read every 10 s while somebody
needs it.
"""

from collections.abc import Callable, Collection, Mapping

import trio

from proxy.groups.lag.reader import LagReader
from proxy.groups.lag.readings import GroupLag, Reading, Unknown

EVERY_S = 10.0
"""Between two readings for pages. A page comes for the groups every two seconds."""

_PATIENCE_S = 4.0


class GroupLags:
    """Reads lags with the account of ``reader``, whose :meth:`LagReader.run` runs beside."""

    def __init__(self, reader: LagReader) -> None:
        self.reader = reader
        self._wanted = trio.Event()

    async def read(self, group_ids: Collection[str]) -> Mapping[str, int | str]:
        """The lag of each of these groups in records, asked of the brokers now; or why it is not known."""
        readings = await self.reader.read(group_ids, _PATIENCE_S)
        return {group_id: lag_of(reading) for group_id, reading in readings.items()}

    def look(self) -> None:
        """Somebody looks: have :meth:`run` read the lags."""
        self._wanted.set()

    def of(self, group_id: str) -> int | None:
        """Return the lag of a group in records; None if it is not known, or a partition's is not."""
        reading = self.reader.known((group_id,))[group_id]
        if not isinstance(reading, GroupLag) or not reading.partitions or reading.unknown_partitions:
            return None
        return reading.lag

    async def run(self, group_ids: Callable[[], Collection[str]]) -> None:
        """Read the lag of the groups that ``group_ids`` names while somebody looks, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            await self.reader.read(group_ids())
            await trio.sleep(EVERY_S)


def lag_of(reading: Reading) -> int | str:
    """The lag in a reading, in records; why it is not known if a part of it is missing or old."""
    if isinstance(reading, Unknown):
        return _why(reading)
    if reading.stale is not None:
        return _why(reading.stale)
    if not reading.partitions:
        return "no commit in a topic that the account may describe"
    unknown = next(iter(reading.unknown_partitions.items()), None)
    if unknown is not None:
        partition, why = unknown
        return f"{partition.topic}-{partition.number}: {_why(why)}"
    return reading.lag


def _why(unknown: Unknown) -> str:
    return f"{unknown.why}: {unknown.detail}" if unknown.detail else str(unknown.why)
