"""The lag that pages show: read while somebody looks, and only what is wholly known."""

import pytest
import trio

from proxy.groups.lag.group_lags import EVERY_S, GroupLags
from proxy.groups.lag.readings import GroupLag, Partition, PartitionLag, Reading, Unknown, Why

PARTITION = Partition("t", 0)


class Reader:
    """Stands for LagReader: it counts what it is asked to read."""

    def __init__(self, reading: Reading) -> None:
        self.asked: list[tuple[str, ...]] = []
        self._reading = reading

    async def read(self, group_ids: list[str]) -> None:
        self.asked.append(tuple(group_ids))

    def known(self, group_ids: tuple[str, ...]) -> dict[str, Reading]:
        return dict.fromkeys(group_ids, self._reading)


def reading(*partitions: PartitionLag) -> GroupLag:
    listed = {Partition("t", number): one for number, one in enumerate(partitions)}
    return GroupLag(group_id="g", read_at=0.0, partitions=listed)


@pytest.mark.parametrize(
    ("known", "lag"),
    [
        (reading(PartitionLag(committed=3, end=10), PartitionLag(committed=5, end=5)), 7),
        (reading(PartitionLag(committed=3, end=10), PartitionLag(committed=None, end=4)), 7),
        (reading(PartitionLag(committed=3, end=Unknown(Why.NO_LEADER))), None),
        (reading(), None),
        (Unknown(Why.NOT_AUTHORIZED), None),
    ],
)
def test_only_a_lag_that_is_wholly_known_is_shown(known: Reading, lag: int | None) -> None:
    assert GroupLags(Reader(known)).of("g") == lag  # type: ignore[arg-type]


async def test_brokers_are_asked_while_somebody_looks_and_not_otherwise(
    autojump_clock: trio.abc.Clock,
) -> None:
    reader = Reader(reading())
    lags = GroupLags(reader)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lags.run, lambda: ["a", "b"])
        await trio.sleep(10 * EVERY_S)
        assert reader.asked == []
        for _ in range(20):  # a page every two seconds, for 40 s
            lags.look()
            await trio.sleep(2)
        assert reader.asked == [("a", "b")] * 4
        await trio.sleep(10 * EVERY_S)
        assert len(reader.asked) <= 5, "it goes on, although nobody looks"
        nursery.cancel_scope.cancel()
