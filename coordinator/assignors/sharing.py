"""Gives partitions to members that share them: the four steps of Kafka's simple assignor (KIP-932).

With at least as many members as partitions, each partition is shared by the same number of members, rounded up. Each
member has a desired count, so that the counts add up to all shares. A member keeps what it has as far as both numbers
allow it. Unlike a consumer group's, an assignment may stay a little off balance: a partition whose last shares only
members could take that have it already goes without them, and so do the partitions after it.
"""

import math
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from coordinator import java_order
from coordinator.assignors.spec import AssignmentImpossible
from coordinator.java_order import HashTable

P = TypeVar("P")


class Sharing(Generic[P]):
    """One distribution in progress. Members are numbers here: their indexes in the group's order."""

    def __init__(self, partitions: Sequence[P], members: Sequence[int], hash_of: Callable[[P], int]) -> None:
        """Prepare to share ``partitions`` among ``members``, the subscribers; ``hash_of`` is Java's hash code."""
        self._partitions = partitions
        self._members = members
        self._hash_of = hash_of
        self._shares = -(-len(members) // len(partitions)) if partitions else 0
        self._desired = _desired_counts(self._shares * len(partitions), members)
        self._table = HashTable(hash_of, java_order.expected_capacity(len(partitions)))
        """The partitions that somebody has or is to get, in Java's order."""
        self._members_of: dict[P, HashTable[int]] = {}
        self._partitions_of: dict[int, HashTable[P]] = {}
        self.removed: list[tuple[int, P]] = []
        self.added: list[tuple[int, P]] = []

    def keep(self, member: int, partition: P) -> None:
        """Note what a member has; members in their order."""
        self._know(partition)
        self._members_of[partition].add(member)
        self._partitions_of.setdefault(member, HashTable(self._hash_of)).add(partition)

    def balance(self) -> None:
        """Fill :attr:`removed` and :attr:`added`. Raises AssignmentImpossible where Kafka's assignor fails too."""
        for member in self._partitions_of:
            self._remove_beyond_desired(member)
        for partition in self._table:
            self._remove_beyond_shares(partition)
        for partition in self._partitions:
            self._know(partition)
        self._hand_out()

    def _know(self, partition: P) -> None:
        self._table.compute(partition)
        self._members_of.setdefault(partition, HashTable(java_order.number_hash))

    def _remove_beyond_desired(self, member: int) -> None:
        for partition in self._partitions_of[member]:
            if len(self._partitions_of[member]) <= self._desired.get(member, 0):
                return
            self._take(member, partition)

    def _remove_beyond_shares(self, partition: P) -> None:
        for member in self._members_of[partition]:
            if len(self._members_of[partition]) <= self._shares:
                return
            self._take(member, partition)

    def _take(self, member: int, partition: P) -> None:
        self._members_of[partition].remove(member)
        self._partitions_of[member].remove(partition)
        self.removed.append((member, partition))

    def _hand_out(self) -> None:
        """Give missing shares to the members below their desired counts, in turn.

        A pass over these members that gives nothing away ends the work for all partitions that follow, too.
        """
        unfilled = [member for member in sorted(self._members) if self._room(member) > 0]
        turn, gave = iter(list(unfilled)), False
        for partition in self._table:
            has_it = frozenset(self._members_of[partition])
            missing = self._shares - len(has_it)
            while missing > 0:
                member = next(turn, None)
                if member is None:
                    if not gave:
                        break
                    if not unfilled:
                        raise AssignmentImpossible(f"{missing} shares of a partition found no member")
                    turn, gave = iter(list(unfilled)), False
                elif member not in has_it:
                    missing, gave = missing - 1, True
                    self._partitions_of.setdefault(member, HashTable(self._hash_of)).add(partition)
                    self.added.append((member, partition))
                    if self._room(member) <= 0:
                        unfilled.remove(member)
            if not unfilled:
                return

    def _room(self, member: int) -> int:
        return self._desired.get(member, 0) - len(self._partitions_of.get(member, ()))


def _desired_counts(total: int, members: Sequence[int]) -> dict[int, int]:
    """Return how many partitions each member is to have, computed with doubles as in Java."""
    if not members:
        return {}
    precise = total / len(members)
    return {
        member: math.ceil(precise * (place + 1)) - math.ceil(precise * place)
        for place, member in enumerate(members)
    }
