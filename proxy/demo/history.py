"""Which consumer owned which partition when, according to the consumers' own callbacks."""

import msgspec


class Holding(msgspec.Struct):
    """A time during which one consumer owned one partition.

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
    """All ownership times of one group, in the order of the reports."""

    def __init__(self) -> None:
        self.holdings: list[Holding] = []
        self.callbacks: list[tuple[int, str]] = []
        """When a callback of which consumer was entered."""
        self._present: dict[tuple[str, int], Holding] = {}

    def assigned(self, consumer: str, at_ns: int, partitions: tuple[int, ...]) -> None:
        """Record that a consumer got these partitions in addition to those it has."""
        self.callbacks.append((at_ns, consumer))
        for partition in partitions:
            if (consumer, partition) not in self._present:
                holding = Holding(consumer, partition, at_ns)
                self.holdings.append(holding)
                self._present[consumer, partition] = holding

    def revoked(self, consumer: str, began_ns: int, ended_ns: int, partitions: tuple[int, ...]) -> None:
        """Record that a consumer gave up these partitions."""
        self.callbacks.append((began_ns, consumer))
        self._release(consumer, began_ns, ended_ns, partitions)

    def ended(self, consumer: str, at_ns: int) -> None:
        """Record that a consumer ended and owns nothing any more."""
        self._release(consumer, at_ns, at_ns, self.held_by(consumer))

    def held_by(self, consumer: str) -> tuple[int, ...]:
        """Return the partitions that a consumer owns now, in order."""
        return tuple(sorted(partition for owner, partition in self._present if owner == consumer))

    def owners(self) -> dict[int, list[str]]:
        """Return the owners of each partition now, without the partitions that nobody owns."""
        owners: dict[int, list[str]] = {}
        for consumer, partition in self._present:
            owners.setdefault(partition, []).append(consumer)
        return owners

    def _release(self, consumer: str, began_ns: int, ended_ns: int, partitions: tuple[int, ...]) -> None:
        for partition in partitions:
            holding = self._present.pop((consumer, partition), None)
            if holding is not None:
                holding.stopped_ns, holding.released_ns = began_ns, ended_ns
