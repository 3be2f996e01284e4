"""Has the state of a share group's partitions initialized, and deleted with the group or the topic.

Initialization takes two records: the first says which partitions are being initialized, in the same change as the
heartbeat that found them; the second, after the share coordinator has answered, that they may be assigned. An
initialization whose second record does not come is tried again after ``group.share.initialize.retry.interval.ms``.
"""

from collections.abc import Collection, Iterable, Mapping

from coordinator.image import TopicImage
from coordinator.shard import Shard
from coordinator.share_groups import records
from coordinator.share_groups.group import PartitionStates, ShareGroup, TopicState, TopicStates
from coordinator.share_state import UNINITIALIZED_START_OFFSET, SharePartition
from coordinator.timers import ShareStateInitialization
from protocol_codecs.records import CoordinatorRecord
from protocol_codecs.uuids import Uuid

_NOTHING = PartitionStates({}, {}, frozenset(), 0)


def begin(
    shard: Shard, group: ShareGroup, group_epoch: int, subscribed: Iterable[str]
) -> list[CoordinatorRecord]:
    """Return the record of the partitions that need state, if there are any; they get it after the answer.

    New partitions of a topic that the group knows start at offset 0, so that no record before the initialization is
    lost; those of a new topic where ``share.auto.offset.reset`` says.
    """
    missing = _missing(shard, group, subscribed)
    if not missing:
        return []
    states = group.partition_states or _NOTHING
    known = states.initialized.keys() | states.initializing.keys()
    starts = {topic_id: 0 if topic_id in known else UNINITIALIZED_START_OFFSET for topic_id in missing}
    timer = ShareStateInitialization(
        group.group_id,
        group_epoch=group_epoch,
        partitions=tuple(
            (topic_id, number, starts[topic_id])
            for topic_id, topic in missing.items()
            for number in sorted(topic.partitions)
        ),
    )
    shard.schedule(timer, 0)
    initializing = _combined(states.initializing, missing)
    deleting = states.deleting.difference(initializing)
    changed = PartitionStates(initializing, states.initialized, deleting, shard.now_ms)
    return [records.partition_states(group.group_id, changed, shard.image)]


def finish(shard: Shard, timer: ShareStateInitialization) -> bool:
    """Have the partitions initialized, and record that they are, or that they could not be; return which of the two."""
    group = shard.groups.get(timer.group_id)
    if not isinstance(group, ShareGroup):
        return False
    partitions = {
        SharePartition(timer.group_id, topic_id, number): start
        for topic_id, number, start in timer.partitions
    }
    succeeded = shard.share_state.initialize(partitions, timer.group_epoch, shard.now_ms)
    tried: dict[Uuid, set[int]] = {}
    for topic_id, number, _ in timer.partitions:
        tried.setdefault(topic_id, set()).add(number)
    states = group.partition_states or _NOTHING
    initialized = states.initialized
    if succeeded:
        new = {
            topic_id: TopicState(
                records.UNKNOWN_TOPIC if (topic := shard.image.by_id(topic_id)) is None else topic.name,
                frozenset(numbers),
            )
            for topic_id, numbers in tried.items()
        }
        initialized = _combined(initialized, new)
    left = PartitionStates(_without(states.initializing, tried), initialized, states.deleting, shard.now_ms)
    shard.apply([records.partition_states(group.group_id, left, shard.image)])
    return succeeded


def start_at(shard: Shard, group: ShareGroup, starts: Mapping[tuple[Uuid, int], int]) -> bool:
    """Give partitions a new state that begins at these offsets, by topic id and number; return whether all got one.

    For a group without members, which need not be in the shard yet.
    """
    states = group.partition_states or _NOTHING
    numbers: dict[Uuid, set[int]] = {}
    for topic_id, number in starts:
        numbers.setdefault(topic_id, set()).add(number)
    chosen = {
        topic_id: TopicState(topic.name, frozenset(numbers[topic_id]))
        for topic_id in numbers
        if (topic := shard.image.by_id(topic_id)) is not None
    }
    initializing = _combined(states.initializing, chosen)
    deleting = states.deleting.difference(initializing)
    changed = PartitionStates(initializing, states.initialized, deleting, shard.now_ms)
    shard.apply([records.partition_states(group.group_id, changed, shard.image)])
    return finish(
        shard,
        ShareStateInitialization(
            group.group_id,
            group_epoch=group.group_epoch,
            partitions=tuple((topic_id, number, start) for (topic_id, number), start in starts.items()),
        ),
    )


def forget(shard: Shard, group: ShareGroup, topics: Iterable[TopicImage]) -> frozenset[Uuid]:
    """Delete the state of all partitions of some topics; return of which topics there was any.

    As in Kafka a record is written even if there was none.
    """
    states = group.partition_states
    if states is None:
        return frozenset()
    doomed: dict[Uuid, frozenset[int]] = {}
    for topic in topics:
        if topic.topic_id in states.initialized:
            doomed[topic.topic_id] = states.initialized[topic.topic_id].partitions
        elif topic.topic_id in states.deleting:
            doomed[topic.topic_id] = frozenset(range(topic.partitions))
    left = {topic_id: state for topic_id, state in states.initialized.items() if topic_id not in doomed}
    deleting = states.deleting.union(doomed)
    changed = PartitionStates(states.initializing, left, deleting, shard.now_ms)
    shard.apply([records.partition_states(group.group_id, changed, shard.image)])
    if doomed:
        shard.share_state.delete(
            [
                SharePartition(group.group_id, topic_id, number)
                for topic_id, numbers in doomed.items()
                for number in sorted(numbers)
            ],
            shard.now_ms,
        )
        done = PartitionStates(states.initializing, left, deleting.difference(doomed), shard.now_ms)
        shard.apply([records.partition_states(group.group_id, done, shard.image)])
    return frozenset(doomed)


def forget_topics(shard: Shard, deleted: Collection[TopicImage]) -> None:
    """Forget the state of deleted topics' partitions, in all groups."""
    topic_ids = frozenset(topic.topic_id for topic in deleted)
    shard.share_state.forget_topics(topic_ids, shard.now_ms)
    change = []
    for group in shard.groups.values():
        states = group.partition_states if isinstance(group, ShareGroup) else None
        if states is None:
            continue
        left = PartitionStates(
            {t: topic for t, topic in states.initializing.items() if t not in topic_ids},
            {t: topic for t, topic in states.initialized.items() if t not in topic_ids},
            states.deleting - topic_ids,
            shard.now_ms,
        )
        if (left.initializing, left.initialized, left.deleting) != (
            states.initializing,
            states.initialized,
            states.deleting,
        ):
            change.append(records.partition_states(group.group_id, left, shard.image))
    shard.apply(change)


def delete(shard: Shard, group: ShareGroup) -> None:
    """Delete the state of all partitions of a group, which is about to be deleted itself."""
    states = group.partition_states
    if states is None:
        return
    doomed = _combined(states.initialized, states.initializing)
    retried = {
        topic_id: TopicState(topic.name, frozenset(range(topic.partitions)))
        for topic_id in states.deleting
        if (topic := shard.image.by_id(topic_id)) is not None
    }
    doomed = _combined(doomed, retried)
    deleting = PartitionStates({}, {}, frozenset(doomed), shard.now_ms)
    shard.apply([records.partition_states(group.group_id, deleting, shard.image)])
    shard.share_state.delete(
        [
            SharePartition(group.group_id, topic_id, number)
            for topic_id, topic in doomed.items()
            for number in sorted(topic.partitions)
        ],
        shard.now_ms,
    )


def _missing(shard: Shard, group: ShareGroup, subscribed: Iterable[str]) -> dict[Uuid, TopicState]:
    """Return the partitions of subscribed topics that have no state and do not get it at the moment."""
    states = group.partition_states or _NOTHING
    is_fresh = shard.now_ms - states.recorded_ms < shard.config.share_initialize_retry_interval_ms
    known = _combined(states.initialized, states.initializing if is_fresh else {})
    missing = {}
    for name in subscribed:
        topic = shard.image.by_name(name)
        if topic is None:
            continue
        has = known[topic.topic_id].partitions if topic.topic_id in known else frozenset()
        if len(has) < topic.partitions:
            missing[topic.topic_id] = TopicState(name, frozenset(range(topic.partitions)) - has)
    return missing


def _combined(some: TopicStates, others: TopicStates) -> dict[Uuid, TopicState]:
    combined = dict(some)
    for topic_id, topic in others.items():
        before = combined[topic_id].partitions if topic_id in combined else frozenset()
        combined[topic_id] = TopicState(topic.name, before | topic.partitions)
    return combined


def _without(topics: TopicStates, partitions: Mapping[Uuid, Collection[int]]) -> dict[Uuid, TopicState]:
    left = {
        topic_id: TopicState(topic.name, topic.partitions.difference(partitions.get(topic_id, ())))
        for topic_id, topic in topics.items()
    }
    return {topic_id: topic for topic_id, topic in left.items() if topic.partitions}
