"""Who had which partition when, as the consumers' own callbacks told it."""

import msgspec


class Holding(msgspec.Struct):
    """One consumer's time with one partition.

    It *reads* from ``assigned_ns`` until ``stopped_ns``, when its revoke callback was entered, and *holds* until
    ``released_ns``, when that callback returned. Both are the moment of its death if it was killed, and None while
    it still has the partition.
    """

    consumer: str
    partition: int
    assigned_ns: int
    stopped_ns: int | None = None
    released_ns: int | None = None


class History:
    """The holdings of one group, in the order in which they were reported."""

    def __init__(self) -> None:
        self.holdings: list[Holding] = []
        self._present: dict[tuple[str, int], Holding] = {}

    def assigned(self, consumer: str, at_ns: int, partitions: tuple[int, ...]) -> None:
        """The consumer has these partitions too, from now on."""
        for partition in partitions:
            if (consumer, partition) not in self._present:
                holding = Holding(consumer, partition, at_ns)
                self.holdings.append(holding)
                self._present[consumer, partition] = holding

    def revoked(self, consumer: str, began_ns: int, ended_ns: int, partitions: tuple[int, ...]) -> None:
        """The consumer gave these partitions up."""
        for partition in partitions:
            holding = self._present.pop((consumer, partition), None)
            if holding is not None:
                holding.stopped_ns, holding.released_ns = began_ns, ended_ns

    def ended(self, consumer: str, at_ns: int) -> None:
        """The consumer is no more: it holds nothing from now on."""
        self.revoked(consumer, at_ns, at_ns, self.held_by(consumer))

    def held_by(self, consumer: str) -> tuple[int, ...]:
        """What the consumer holds at present, in order."""
        return tuple(sorted(partition for owner, partition in self._present if owner == consumer))

    def owners(self) -> dict[int, list[str]]:
        """Who holds each partition at present; partitions that nobody holds are left out."""
        owners: dict[int, list[str]] = {}
        for consumer, partition in self._present:
            owners.setdefault(partition, []).append(consumer)
        return owners
