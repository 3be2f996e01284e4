"""What this process knows of partitions without an owner: topics' sizes, suspicions, leaders that have to rejoin.

:mod:`translation.moving.mend` decides and acts by it. All of it is bounded, and only what the broker said of
groups whose members come through here gets in.
"""

import math
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from translation.member_log.group_log import GroupLog
from translation.member_log.group_records import MEND, GroupKey, Mend
from translation.members.environment import Environment
from translation.mending.findings import TopicPartition
from translation.mending.suspicion import REMEMBERED_MS, Suspicion

if TYPE_CHECKING:
    from translation.member_log.member_log import MemberLog


_GROUPS_LIMIT = 10_000
_TOPICS_LIMIT = 20_000
_MEMBERS_LIMIT = 10_000
_PARTITIONS_LIMIT = 200_000
"""What members of classic groups were assigned, all of them together."""
_STALE_S = 600.0
"""A suspicion that was not confirmed for so long is not shown: the group is not described any more."""

SIZES_S = 300.0
"""After so long the broker is asked for the size of a topic again; before anything is done it is asked in any case."""


class Unowned(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Partitions of a group that nobody has, for people: how many, ``since_s`` seconds, and what is done about it.

    ``tries`` counts how often something was done. ``why_not`` says why nothing is; empty if something will be.
    """

    partitions: int
    since_s: float
    tries: int
    why_not: str
    text: str


class Leader(msgspec.Struct, frozen=True):
    """The leader of a classic group, as a JoinGroup's answer named it; ``is_here``: to its own JoinGroup."""

    member_id: str
    is_here: bool


class AskedToRejoin(msgspec.Struct, frozen=True):
    """Members of a classic group that are asked to rejoin; any one of them if ``members`` is empty."""

    members: frozenset[str]
    until: float


class UnownedPartitions:
    """The knowledge of one process. ``records`` are those of its member log, or its own."""

    def __init__(self, environment: Environment, records: GroupLog, log: "MemberLog | None") -> None:
        self._environment = environment
        self._log = log
        self.records = records
        self.suspicions: OrderedDict[str, Suspicion] = OrderedDict()
        self.leaders_to_ask: dict[str, AskedToRejoin] = {}
        """The classic groups in which members are asked to rejoin at their Heartbeats; there are hardly ever any."""
        self.under_way: set[str] = set()
        """Groups about which the broker is asked now."""
        self._sizes: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._leaders: OrderedDict[str, Leader] = OrderedDict()
        self._assigned: OrderedDict[tuple[str, str], frozenset[TopicPartition]] = OrderedDict()
        self._assigned_count = 0
        self._asked: dict[str, float] = {}
        """Groups of which any member was asked, because the leader was not known, and until when that counts."""

    # -- sizes of topics ---------------------------------------------------------------------------------------

    def sizes(self, topics: Iterable[str]) -> dict[str, int]:
        """The numbers of partitions of those topics of which it is known."""
        oldest = self._environment.now - SIZES_S
        found = ((name, self._sizes.get(name)) for name in topics)
        return {name: known[0] for name, known in found if known is not None and known[1] >= oldest}

    def learn_sizes(self, sizes: Iterable[tuple[str, int]]) -> None:
        """The broker has said how many partitions these topics have."""
        for name, size in sizes:
            self._sizes[name] = size, self._environment.now
            self._sizes.move_to_end(name)
        while len(self._sizes) > _TOPICS_LIMIT:
            self._sizes.popitem(last=False)

    # -- suspicions --------------------------------------------------------------------------------------------

    def suspect(self, group_id: str, suspicion: Suspicion) -> None:
        """A group leaves partitions to nobody."""
        self.suspicions[group_id] = suspicion
        while len(self.suspicions) > _GROUPS_LIMIT:
            self.suspicions.popitem(last=False)

    def of_group(self, group_id: str) -> Unowned | None:
        """What nobody has of a group; None if nothing is, or nothing is known."""
        suspicion = self.suspicions.get(group_id)
        if suspicion is None or self._environment.now - suspicion.seen_at >= _STALE_S:
            return None
        count = len(suspicion.findings.unowned)
        text = "1 partition has no owner" if count == 1 else f"{count} partitions have no owner"
        if suspicion.tries:
            text += f"; tries to mend it: {suspicion.tries}"
        if suspicion.why_not:
            text += f"; not mended: {suspicion.why_not}"
        return Unowned(
            partitions=count,
            since_s=self._environment.now - suspicion.since,
            tries=suspicion.tries,
            why_not=suspicion.why_not,
            text=text,
        )

    # -- records -----------------------------------------------------------------------------------------------

    def mend(self, group_id: str) -> tuple[Mend, int]:
        """What the record of a group says that counts, and when it was appended (ms of the log's clock).

        Tries of long ago are none.
        """
        stored = self.records.of_group(group_id).get(MEND)
        if stored is None or stored.record.mend is None:
            return Mend(), 0
        mend = stored.record.mend
        if self.records.now_ms(group_id, self._environment.now) - stored.appended_ms > REMEMBERED_MS:
            mend = Mend(mend.moved_back)
        return mend, stored.appended_ms

    def is_alone(self) -> bool:
        """Whether no other process can mend a group at the same time without our reading of it."""
        return self._log is not None or self._environment.settings.sole_process

    def write(self, group_id: str, mend: Mend) -> GroupKey | None:
        """Write the record of a group; None if nothing can be written now."""
        return self.records.write(group_id, MEND, self._environment.now, mend=mend)

    def moves_back(self, group_id: str) -> None:
        """A member of a group is told to go back to the classic protocol: the group was moved by Epochgate."""
        before, _ = self.mend(group_id)
        if not before.moved_back:
            self.write(group_id, Mend(moved_back=True))

    # -- classic groups ----------------------------------------------------------------------------------------

    def leader(self, group_id: str) -> Leader | None:
        """The leader of a classic group that was moved back, as far as it is known."""
        return self._leaders.get(group_id)

    def learn_leader(self, group_id: str, leader: str, member_id: str) -> None:
        """The broker has answered a member's JoinGroup and named the leader."""
        if not leader:
            return
        known = self._leaders.get(group_id)
        is_here = leader == member_id or (known is not None and known == Leader(leader, is_here=True))
        self._leaders[group_id] = Leader(leader, is_here)
        self._leaders.move_to_end(group_id)
        if len(self._leaders) > _GROUPS_LIMIT:
            self._leaders.popitem(last=False)
        until = self._asked.pop(group_id, -math.inf)
        if leader != member_id and until > self._environment.now:
            self.leaders_to_ask[group_id] = AskedToRejoin(frozenset({leader}), until)

    def assigned(self, group_id: str, member_ids: Iterable[str]) -> dict[str, frozenset[TopicPartition]]:
        """What these members of a classic group were told of their assignments, those of which it is known."""
        found = ((one, self._assigned.get((group_id, one))) for one in member_ids)
        return {one: partitions for one, partitions in found if partitions is not None}

    def learn_assignment(self, group_id: str, member_id: str, partitions: frozenset[TopicPartition]) -> None:
        """The broker has answered a member's SyncGroup."""
        key = group_id, member_id
        self._assigned_count += len(partitions) - len(self._assigned.pop(key, ()))
        self._assigned[key] = partitions
        while len(self._assigned) > _MEMBERS_LIMIT or self._assigned_count > _PARTITIONS_LIMIT:
            self._assigned_count -= len(self._assigned.popitem(last=False)[1])

    def was_asked(self, group_id: str, member_id: str) -> None:
        """A member is asked to rejoin. If any could be, the leader is asked once its JoinGroup answer names it."""
        asked = self.leaders_to_ask.pop(group_id)
        if not asked.members:
            self._asked[group_id] = asked.until
        elif rest := asked.members - {member_id}:
            self.leaders_to_ask[group_id] = AskedToRejoin(rest, asked.until)

    def is_to_rejoin(self, group_id: str, member_id: str) -> bool:
        """Whether this member of a classic group is asked to rejoin at its Heartbeat."""
        asked = self.leaders_to_ask.get(group_id)
        if asked is None:
            return False
        if asked.until <= self._environment.now:
            del self.leaders_to_ask[group_id]
            return False
        return not asked.members or member_id in asked.members
