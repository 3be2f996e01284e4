"""Computes the metrics about groups at each scrape, and which groups have a label of their own (``metrics.groups``).

The counts come from the registry or from a merged snapshot. The number of group ids used as labels is bounded:
:class:`GroupLabels` says which groups get series of their own; all others share the label ``other``.
"""

import bisect
import hashlib
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator

import msgspec
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.groups.group_records import GroupRecord
from proxy.groups.group_views import member_view
from proxy.groups.snapshot import BrokerView, ConnectView, GroupView, connect_of
from proxy.metrics.group_families import (
    BROKER_MEMBERS,
    CONNECTORS,
    FAMILIES,
    GAP,
    GROUP_MEMBERS,
    GROUP_MODE,
    LEFT_OUT,
    MEMBERS,
    NOT_TRANSLATABLE,
    PREFIX,
    REJOIN,
    SHADOW_EMPTY,
    SHADOW_MOVED,
    SHADOWS,
    STUCK,
    STUCK_MEMBERS,
    TASKS,
    UNOWNED,
)
from proxy.runtime.time_slice import TimeSlice
from proxy.shadow.view import ShadowView
from translation.mending.unowned import Unowned
from translation.reasons import category

OTHER = "other"


class GroupCounts(msgspec.Struct, kw_only=True):
    """The counts of one group. ``members`` counts by protocol and state."""

    id: str
    mode: str
    members: Counter[tuple[str, str]]
    broker: BrokerView | None
    stuck_members: int
    is_stuck: bool
    gap: int
    why_not: str | None
    connect: ConnectView | None
    shadow: ShadowView | None = None
    unowned: Unowned | None = None


class GroupLabels:
    """Decides which groups get a label, and so series, of their own; ``most`` at once.

    Those that rank first do: by the policy's rules in order, then by a hash of the id. So processes that see different
    groups, in any order, choose the same ones as far as they see them. ``on_lost`` is called with the id of a group
    that gives its label to another one.
    """

    def __init__(
        self,
        most: int,
        rule_number: Callable[[str], int | None] = lambda _: None,
        on_lost: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.on_lost = on_lost
        self._most = most
        self._rule_number = rule_number
        self._ranked: list[tuple[Rank, str]] = []
        self._labelled: set[str] = set()

    def of(self, group_id: str, *, has_members: bool = True) -> str:
        """Return the label of a group. Groups without members get none of their own, since clients can invent ids."""
        if group_id in self._labelled:
            return group_id
        if not has_members or not self._most:
            return OTHER
        ranked = self._rank(group_id), group_id
        if len(self._ranked) >= self._most:
            last = self._ranked[-1]
            if ranked > last:
                return OTHER
            self.drop(last[1])
            self.on_lost(last[1])
        bisect.insort(self._ranked, ranked)
        self._labelled.add(group_id)
        return group_id

    def rank_again(self) -> None:
        """The policy has changed."""
        self._ranked = sorted((self._rank(group_id), group_id) for group_id in self._labelled)

    def keep(self, group_ids: Container[str]) -> None:
        """Release the labels of all groups but these."""
        self._ranked = [one for one in self._ranked if one[1] in group_ids]
        self._labelled = {group_id for _, group_id in self._ranked}

    def drop(self, group_id: str) -> bool:
        """Release the label of a group that is gone. Returns whether it had one."""
        if group_id not in self._labelled:
            return False
        self._labelled.remove(group_id)
        self._ranked = [one for one in self._ranked if one[1] != group_id]
        return True

    def _rank(self, group_id: str) -> "Rank":
        number = self._rule_number(group_id)
        digest = hashlib.blake2b(group_id.encode(errors="surrogatepass"), digest_size=8).digest()
        return (_NO_RULE if number is None else number), int.from_bytes(digest)


Rank = tuple[int, int]
"""The number of the rule that holds for a group, and a hash of its id."""
_NO_RULE = 1 << 62


class GroupCollector(Collector):
    """Makes the metrics of this module from the groups that ``counts`` returns."""

    def __init__(self, labels: GroupLabels, counts: Callable[[], Iterable[GroupCounts]]) -> None:
        self.counts = counts
        self.labels = labels

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Called by the registry at each scrape."""
        yield from families(self.counts(), self.labels)

    async def collect_cooperatively(self) -> list[GaugeMetricFamily]:
        """See :meth:`collect`; it yields to other tasks in between."""
        return await families_cooperatively(self.counts(), self.labels)


def counts_of_record(group: GroupRecord, now_us: int) -> GroupCounts:
    """Count a group of the registry."""
    stuck = sum(member.stuck_s(now_us) > 0 for member in group.members.values())
    broker = group.broker
    return GroupCounts(
        id=group.id,
        mode=group.mode,
        members=Counter((member.protocol, member.state) for member in group.members.values()),
        broker=broker,
        stuck_members=stuck,
        is_stuck=stuck > 0 or group.conversion_stuck(now_us) is not None,
        gap=max(
            (m.epoch - m.generation for m in group.members.values() if m.generation >= 0 <= m.epoch),
            default=0,
        ),
        why_not=group.why_not,
        connect=connect_of(
            [member_view(one, now_us) for one in group.members.values() if one.protocol == "connect"]
        ),
        shadow=group.shadow,
        unowned=group.lookups.unowned_of(group.id),
    )


def counts_of_view(group: GroupView) -> GroupCounts:
    """Count a group of a snapshot, for example one merged from several workers."""
    return GroupCounts(
        id=group.id,
        mode=group.mode,
        members=Counter((member.protocol, member.state) for member in group.members),
        broker=group.broker,
        stuck_members=sum(member.stuck_s > 0 for member in group.members),
        is_stuck=group.stuck is not None,
        gap=max((m.epoch - m.generation for m in group.members if m.generation >= 0 <= m.epoch), default=0),
        why_not=group.why_not,
        connect=group.connect,
        shadow=group.shadow,
        unowned=group.unowned,
    )


def families(groups: Iterable[GroupCounts], labels: GroupLabels) -> Iterator[GaugeMetricFamily]:
    """Return all metrics of these groups."""
    totals = _FamilyTotals(labels)
    for _ in totals.add_all(groups):
        pass
    return totals.families()


async def families_cooperatively(
    groups: Iterable[GroupCounts], labels: GroupLabels
) -> list[GaugeMetricFamily]:
    """See :func:`families`; it yields to other tasks, so each group is counted as it is at its turn."""
    totals, time_slice = _FamilyTotals(labels), TimeSlice()
    for _ in totals.add_all(groups):
        await time_slice.yield_if_spent()
    return list(totals.families())


class _FamilyTotals:
    """Sums over groups, for each metric."""

    def __init__(self, labels: GroupLabels) -> None:
        self._labels = labels
        self._totals = {family: Counter[tuple[str, ...]]() for family in FAMILIES}
        self._totals[LEFT_OUT][()] = 0

    def add_all(self, groups: Iterable[GroupCounts]) -> Iterator[None]:
        counted = list[GroupCounts]()
        for group in groups:  # a later one may take the label of an earlier one
            self._labels.of(group.id, has_members=bool(group.members))
            counted.append(group)
            yield
        for group in counted:
            self._add(group)
            yield

    def _add(self, group: GroupCounts) -> None:
        totals, label = self._totals, self._labels.of(group.id, has_members=bool(group.members))
        if group.members:
            totals[GROUP_MODE][label, group.mode] += 1
        if group.why_not:
            totals[NOT_TRANSLATABLE][label, category(group.why_not)] += 1
        for (protocol, state), count in group.members.items():
            totals[MEMBERS][group.mode, protocol, state] += count
            totals[GROUP_MEMBERS][label, protocol] += count
        if group.broker is not None and group.broker.type and group.connect is None:
            totals[BROKER_MEMBERS][label, "classic"] += group.broker.classic
            totals[BROKER_MEMBERS][label, "consumer"] += group.broker.consumer
        totals[STUCK_MEMBERS][(label,)] += group.stuck_members
        totals[STUCK][(label,)] += group.is_stuck
        totals[GAP][(label,)] = max(totals[GAP][(label,)], group.gap)
        totals[LEFT_OUT][()] += label is OTHER
        if group.unowned is not None:
            totals[UNOWNED][(label,)] += group.unowned.partitions
        if group.connect is not None:
            totals[CONNECTORS][(label,)] += group.connect.connectors
            totals[TASKS][(label,)] += group.connect.tasks
            rejoin = totals[REJOIN]
            rejoin[(label,)] = max(rejoin[(label,)], round(group.connect.rejoins_at or 0))
        if group.shadow is not None:
            self._add_shadow(label, group.shadow)

    def _add_shadow(self, label: str, shadow: ShadowView) -> None:
        totals = self._totals
        totals[SHADOWS][label, "computed" if shadow.why_not is None else "unknown"] += 1
        if shadow.empty is not None and shadow.moved is not None:
            totals[SHADOW_EMPTY][(label,)] += shadow.empty.high
            totals[SHADOW_MOVED][(label,)] += shadow.moved.high

    def families(self) -> Iterator[GaugeMetricFamily]:
        for family, values in self._totals.items():
            made = GaugeMetricFamily(PREFIX + family.name, family.meaning, labels=family.labels)
            for labels, value in values.items():
                made.add_metric(labels, value)
            yield made
