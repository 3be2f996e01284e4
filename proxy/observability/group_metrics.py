"""The metrics that describe groups as they are now, made at each scrape from the book or from a merged picture.

Group ids as labels are bounded: the first so many groups with members have series of their own, as long as they live,
and all others share those of ``other``.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator

import msgspec
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.metrics.group_families import (
    BROKER_MEMBERS,
    ELSEWHERE,
    FAMILIES,
    GAP,
    GROUP_MEMBERS,
    GROUPS,
    LEFT_OUT,
    MEMBERS,
    NOT_TRANSLATABLE,
    PREFIX,
    PROGRESS,
    STUCK,
    STUCK_MEMBERS,
    Family,
)
from proxy.observability.group_registry import GroupRecord
from proxy.observability.snapshot import BrokerView, GroupView
from proxy.runtime.time_slice import TimeSlice
from translation.member_state import MemberState
from translation.reasons import category

OTHER = "other"
_UNSETTLED = frozenset({MemberState.PREPARE_REBALANCE, MemberState.COMPLETING_REBALANCE})


class Figures(msgspec.Struct, kw_only=True):
    """What is counted of one group. ``members`` is by protocol and state."""

    id: str
    mode: str
    members: Counter[tuple[str, str]]
    broker: BrokerView | None
    elsewhere: int
    stuck_members: int
    is_stuck: bool
    gap: int
    why_not: str | None


class Labels:
    """Which groups have series of their own."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._labelled: set[str] = set()

    def of(self, group_id: str, *, has_members: bool = True) -> str:
        """The label of a group. One without members gets none of its own: anybody can name groups."""
        if group_id not in self._labelled:
            if not has_members or len(self._labelled) >= self._most:
                return OTHER
            self._labelled.add(group_id)
        return group_id

    def keep(self, group_ids: Container[str]) -> None:
        """Only these groups are left: the labels of all others are free again."""
        self._labelled = {group_id for group_id in self._labelled if group_id in group_ids}

    def drop(self, group_id: str) -> bool:
        """A group is gone: its label is free again. Whether it had one."""
        if group_id in self._labelled:
            self._labelled.remove(group_id)
            return True
        return False


class GroupCollector(Collector):
    """Makes the families of this module of whatever ``figures`` gives."""

    def __init__(self, labels: Labels, figures: Callable[[], Iterable[Figures]]) -> None:
        self.figures = figures
        self.labels = labels

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Called by the registry at each scrape."""
        yield from families(self.figures(), self.labels)

    async def collect_cooperatively(self) -> list[GaugeMetricFamily]:
        """The same, while others go on."""
        return await families_cooperatively(self.figures(), self.labels)


def figures_of_record(group: GroupRecord, now_us: int) -> Figures:
    """Count a group in the book."""
    stuck = sum(member.stuck_s(now_us) > 0 for member in group.members.values())
    broker = group.broker
    return Figures(
        id=group.id,
        mode=group.mode,
        members=Counter((member.protocol, member.state) for member in group.members.values()),
        broker=broker,
        elsewhere=0 if broker is None else len(set(broker.members) - group.members.keys()),
        stuck_members=stuck,
        is_stuck=stuck > 0 or group.switch_stuck(now_us) is not None,
        gap=max(
            (m.epoch - m.generation for m in group.members.values() if m.generation >= 0 <= m.epoch),
            default=0,
        ),
        why_not=group.why_not,
    )


def figures_of_view(group: GroupView) -> Figures:
    """Count a group in a picture, such as one that was merged of several workers."""
    return Figures(
        id=group.id,
        mode=group.mode,
        members=Counter((member.protocol, member.state) for member in group.members),
        broker=group.broker,
        elsewhere=group.progress.elsewhere,
        stuck_members=sum(member.stuck_s > 0 for member in group.members),
        is_stuck=group.stuck is not None,
        gap=max((m.epoch - m.generation for m in group.members if m.generation >= 0 <= m.epoch), default=0),
        why_not=group.why_not,
    )


def families(groups: Iterable[Figures], labels: Labels) -> Iterator[GaugeMetricFamily]:
    """Everything that is counted of these groups."""
    sums = _Sums(labels)
    for group in groups:
        sums.add(group)
    return sums.families()


async def families_cooperatively(groups: Iterable[Figures], labels: Labels) -> list[GaugeMetricFamily]:
    """The same, while others go on: each group as it is when it is counted."""
    sums, time_slice = _Sums(labels), TimeSlice()
    for group in groups:
        sums.add(group)
        await time_slice.yield_if_spent()
    return list(sums.families())


class _Sums:
    """What is added up over groups."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._sums = {family: Counter[tuple[str, ...]]() for family in FAMILIES if family is not PROGRESS}
        self._done, self._total = Counter[str](), Counter[str]()
        for single in (STUCK, LEFT_OUT):
            self._sums[single][()] = 0

    def add(self, group: Figures) -> None:
        sums, label = self._sums, self._labels.of(group.id, has_members=bool(group.members))
        sums[GROUPS][group.mode, _protocol(group), _state(group)] += 1
        if group.why_not:
            sums[NOT_TRANSLATABLE][(category(group.why_not),)] += 1
        for (protocol, state), count in group.members.items():
            sums[MEMBERS][group.mode, protocol, state] += count
            sums[GROUP_MEMBERS][label, protocol] += count
        if group.broker is not None and group.broker.type:
            sums[BROKER_MEMBERS][label, "classic"] += group.broker.classic
            sums[BROKER_MEMBERS][label, "consumer"] += group.broker.consumer
        self._done[label] += _done(group)
        self._total[label] += _total(group)
        sums[ELSEWHERE][(label,)] += group.elsewhere
        sums[STUCK_MEMBERS][(label,)] += group.stuck_members
        sums[STUCK][()] += group.is_stuck
        sums[GAP][(label,)] = max(sums[GAP][(label,)], group.gap)
        sums[LEFT_OUT][()] += label is OTHER

    def families(self) -> Iterator[GaugeMetricFamily]:
        for family, values in self._sums.items():
            yield _gauge(family, values.items())
        parts = (((label,), self._done[label] / most) for label, most in self._total.items() if most)
        yield _gauge(PROGRESS, parts)


def _gauge(family: Family, values: Iterable[tuple[tuple[str, ...], float]]) -> GaugeMetricFamily:
    made = GaugeMetricFamily(PREFIX + family.name, family.meaning, labels=family.labels)
    for labels, value in values:
        made.add_metric(labels, value)
    return made


def _protocol(group: Figures) -> str:
    protocols = {protocol for protocol, _ in group.members}
    return "mixed" if len(protocols) > 1 else next(iter(protocols), "")


def _state(group: Figures) -> str:
    if not group.members:
        return "Empty"
    return "Rebalancing" if any(state in _UNSETTLED for _, state in group.members) else "Stable"


def _done(group: Figures) -> int:
    if group.broker is not None and group.broker.type:
        return group.broker.consumer
    return sum(count for (protocol, _), count in group.members.items() if protocol != "classic")


def _total(group: Figures) -> int:
    if group.broker is not None and group.broker.type:
        return group.broker.classic + group.broker.consumer
    return sum(group.members.values())
