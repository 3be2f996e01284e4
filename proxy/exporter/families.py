"""Makes metrics of what is known of groups, with the names, labels and meanings of kafka_exporter and of Burrow.

kafka_exporter: a topic has series for all its partitions as soon as the group has a commit in one of them; without a
commit offset and lag are -1; the sum of offsets counts these -1, the sum of lags does not. Burrow: only partitions with
a commit (itself has also those that a classic member owns, with a lag of 0), and its own labels.

Different on purpose: a lag is never negative; and where the end of a partition is not known, its lag and every sum that
it would be part of are left out, where kafka_exporter adds up what it has.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from proxy.config.exporter import Names
from proxy.exporter.cluster_census import ClusterCount, Gap, Kind, MemberKind
from proxy.groups.lag.readings import GroupLag, Partition, PartitionLag

AGE = "epochgate_exporter_reading_age_seconds"
LEFT_OUT = "epochgate_exporter_left_out_groups"
LISTED = "epochgate_exporter_groups_listed_completely"
CLUSTER_GROUPS = "epochgate_cluster_groups"
CLUSTER_MEMBERS = "epochgate_cluster_members"
CLUSTER_GAPS = "epochgate_cluster_gaps"
CLUSTER_COMPLETE = "epochgate_cluster_complete"
OWN_METRICS = (AGE, LEFT_OUT, LISTED, CLUSTER_GROUPS, CLUSTER_MEMBERS, CLUSTER_GAPS, CLUSTER_COMPLETE)
"""Metrics that no other exporter has."""

NO_COMMIT = -1


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of one group."""

    lag: GroupLag
    age_s: float
    members: int | None
    """None: not known, or known too long ago."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """How many groups have no metrics, by the reason."""

    max_groups: int = 0
    max_series: int = 0
    unknown: int = 0


class _Families:
    def __init__(self, names: Collection[Names], cluster: str) -> None:
        self._names = names
        self._cluster = cluster
        by_partition = ("consumergroup", "topic", "partition")
        by_topic = ("consumergroup", "topic")
        self._offset = GaugeMetricFamily(
            "kafka_consumergroup_current_offset",
            "Committed offset of a group in a partition; -1 without a commit",
            labels=by_partition,
        )
        self._offset_sum = GaugeMetricFamily(
            "kafka_consumergroup_current_offset_sum",
            "Sum of a group's committed offsets in all partitions of a topic",
            labels=by_topic,
        )
        self._lag = GaugeMetricFamily(
            "kafka_consumergroup_lag",
            "Records from a group's committed offset to the end of a partition; -1 without a commit",
            labels=by_partition,
        )
        self._lag_sum = GaugeMetricFamily(
            "kafka_consumergroup_lag_sum",
            "Sum of a group's lag in all partitions of a topic",
            labels=by_topic,
        )
        self._members = GaugeMetricFamily(
            "kafka_consumergroup_members", "Members of a group", labels=("consumergroup",)
        )
        burrow = ("cluster", "consumer_group")
        self._total = GaugeMetricFamily(
            "burrow_kafka_consumer_lag_total", "Sum of a group's lag in all partitions", labels=burrow
        )
        self._burrow_lag = GaugeMetricFamily(
            "burrow_kafka_consumer_partition_lag",
            "Records from a group's committed offset to the end of a partition",
            labels=(*burrow, "topic", "partition"),
        )
        self._burrow_offset = GaugeMetricFamily(
            "burrow_kafka_consumer_current_offset",
            "Committed offset of a group in a partition",
            labels=(*burrow, "topic", "partition"),
        )
        self._age = GaugeMetricFamily(
            AGE,
            "How old the offsets and lags of a group are",
            labels=("consumergroup",),
        )

    def add(self, group: Shown) -> None:
        group_id, topics = group.lag.group_id, dict[str, list[tuple[Partition, PartitionLag]]]()
        for partition, one in group.lag.partitions.items():
            topics.setdefault(partition.topic, []).append((partition, one))
        self._age.add_metric((group_id,), group.age_s)
        if "kafka_exporter" in self._names:
            for topic, partitions in topics.items():
                self._add_topic(group_id, topic, partitions)
            if group.members is not None:
                self._members.add_metric((group_id,), group.members)
        if "burrow" in self._names:
            self._add_as_burrow(group)

    def _add_topic(
        self, group_id: str, topic: str, partitions: Iterable[tuple[Partition, PartitionLag]]
    ) -> None:
        offsets, lags = list[int](), list[int]()
        offsets_are_known = lags_are_known = True
        for partition, one in partitions:
            labels = (group_id, topic, str(partition.number))
            offset = NO_COMMIT if one.committed is None else one.committed
            if isinstance(offset, int):
                self._offset.add_metric(labels, offset)
                offsets.append(offset)
            else:
                offsets_are_known = False
            if one.unknown is not None:
                lags_are_known = False
            elif one.lag is None:
                self._lag.add_metric(labels, NO_COMMIT)
            else:
                self._lag.add_metric(labels, one.lag)
                lags.append(one.lag)
        if offsets_are_known:
            self._offset_sum.add_metric((group_id, topic), sum(offsets))
        if lags_are_known:
            self._lag_sum.add_metric((group_id, topic), sum(lags))

    def _add_as_burrow(self, group: Shown) -> None:
        labels = (self._cluster, group.lag.group_id)
        known = True
        for partition, one in group.lag.partitions.items():
            at = (*labels, partition.topic, str(partition.number))
            if isinstance(one.committed, int):
                self._burrow_offset.add_metric(at, one.committed)
            if one.lag is not None:
                self._burrow_lag.add_metric(at, one.lag)
            elif one.committed is not None:
                known = False
        if known:
            self._total.add_metric(labels, group.lag.lag)

    def all(self) -> Iterator[Metric]:
        yield self._age
        if "kafka_exporter" in self._names:
            yield from (self._offset, self._offset_sum, self._lag, self._lag_sum, self._members)
        if "burrow" in self._names:
            yield from (self._total, self._burrow_lag, self._burrow_offset)


def count_series(group: Shown, names: Collection[Names]) -> int:
    """How many series a group has at most."""
    partitions, topics = len(group.lag.partitions), len({at.topic for at in group.lag.partitions})
    by_names: Mapping[Names, int] = {
        "kafka_exporter": 2 * partitions + 2 * topics + 1,
        "burrow": 2 * partitions + 1,
    }
    return 1 + sum(by_names[name] for name in names)


def families(
    groups: Iterable[Shown], left_out: LeftOut, *, names: Collection[Names], cluster: str, max_series: int
) -> Iterator[Metric]:
    """The metrics of these groups, in this order, as long as there is room; and of what was left out."""
    made = _Families(names, cluster)
    room, beyond = max_series, 0
    for group in groups:
        needed = count_series(group, names)
        if needed > room:
            beyond += 1
            continue
        room -= needed
        made.add(group)
    yield from made.all()
    left = GaugeMetricFamily(
        LEFT_OUT,
        "Groups without metrics here, by the reason: a bound of the configuration, or nothing is known of them",
        labels=("reason",),
    )
    left.add_metric(("max_groups",), left_out.max_groups)
    left.add_metric(("max_series",), left_out.max_series + beyond)
    left.add_metric(("unknown",), left_out.unknown)
    yield left


def cluster_families(count: ClusterCount | None) -> Iterator[Metric]:
    """The metrics of the whole cluster; None: nothing is known, or it is too old.

    Without any group in the lists there are no counts: the brokers did not answer.
    """
    complete = GaugeMetricFamily(
        CLUSTER_COMPLETE,
        "1 if the counts of the cluster's groups and members lack nothing; else they are lower bounds",
    )
    complete.add_metric((), count is not None and count.is_complete)
    yield complete
    if count is None:
        return
    gaps = GaugeMetricFamily(
        CLUSTER_GAPS,
        "What the counts lack: brokers that did not list their groups, groups that are not described, the right to "
        "list all groups",
        labels=("what",),
    )
    for gap in Gap:
        gaps.add_metric((gap,), count.gaps[gap])
    yield gaps
    if not count.groups.total() and not count.is_complete:
        return
    groups = GaugeMetricFamily(
        CLUSTER_GROUPS, "Groups of the cluster, by type and protocol type", labels=Kind._fields
    )
    for kind, number in sorted(count.groups.items()):
        groups.add_metric(kind, number)
    yield groups
    members = GaugeMetricFamily(
        CLUSTER_MEMBERS,
        "Members of the cluster's groups, by type and protocol type of the group and by the protocol of the member",
        labels=MemberKind._fields,
    )
    for member, number in sorted(count.members.items()):
        members.add_metric(member, number)
    yield members
