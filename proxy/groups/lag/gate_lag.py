"""The lag of groups as the gates of a move judge it: records, or why it is not known."""

from collections.abc import Collection, Mapping

from proxy.groups.lag.reader import LagReader
from proxy.groups.lag.readings import Reading, Unknown

_PATIENCE_S = 4.0


async def read_lags(reader: LagReader, group_ids: Collection[str]) -> Mapping[str, int | str]:
    """The lag of each of these groups, asked of the brokers now."""
    readings = await reader.read(group_ids, _PATIENCE_S)
    return {group_id: lag_of(reading) for group_id, reading in readings.items()}


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
