"""Kafka's records of a group beside those that the embedded coordinator wrote: the same ones, byte for byte.

Byte for byte, but for what docs/reference/embedded-coordinator.md lists: times; the metadata hash and the metadata
version, which must be equal where Kafka's are; the order of what Kafka keeps in sets or deletes together, which must
be the same set; and, in one scenario, tombstones that Kafka forgets.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, TypeVar

import msgspec

from coordinator.log import MemoryLog
from protocol_codecs import records as r
from protocol_codecs.message import Message
from protocol_codecs.messages.consumer_protocol import decode_assignment
from protocol_codecs.records import CoordinatorRecord, RecordType, decode_record, encode_key, encode_value

LoggedRecord = tuple[bytes, bytes | None]
"""A record as it is in Kafka's log: key and value."""

CLOCKS: dict[type[Message], tuple[str, ...]] = {
    r.OffsetCommitValue: ("commit_timestamp",),
    r.GroupMetadataValue: ("current_state_timestamp",),
    r.ConsumerGroupTargetAssignmentMetadataValue: ("assignment_timestamp",),
    r.ConsumerGroupRegularExpressionValue: ("timestamp",),
    r.ShareGroupTargetAssignmentMetadataValue: ("assignment_timestamp",),
}
"""Times: Kafka's are those of the calendar. Whether there is one is compared."""
NAMES: dict[type[Message], tuple[str, ...]] = {
    r.ConsumerGroupMetadataValue: ("metadata_hash",),
    r.ShareGroupMetadataValue: ("metadata_hash",),
}
"""Numbers that stand for something: equal here where, and only where, they are equal in Kafka."""
VERSIONS: dict[type[Message], tuple[str, ...]] = {
    r.ConsumerGroupRegularExpressionValue: ("version",),
}
"""Numbers that also count what happens elsewhere in Kafka's cluster: equal here where they are equal there."""
SETS: dict[type[Message], tuple[str, ...]] = {
    r.ConsumerGroupTargetAssignmentMemberValue: ("topic_partitions",),
    r.ConsumerGroupCurrentMemberAssignmentValue: ("assigned_partitions", "partitions_pending_revocation"),
    r.GroupMetadataValue: ("members",),
    r.ShareGroupTargetAssignmentMemberValue: ("topic_partitions",),
    r.ShareGroupCurrentMemberAssignmentValue: ("assigned_partitions",),
    r.ShareGroupStatePartitionMetadataValue: ("initializing_topics", "initialized_topics", "deleting_topics"),
}
"""What is a set in Kafka: topics with partitions, or members."""
TOGETHER = {(RecordType.OFFSET_COMMIT, True), (RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION, False)}
"""Tombstones of offsets that are deleted together, and expressions that are resolved together: Kafka writes them as it
finds them in a hash table."""
NO_TIMES = (-1, 0)
T = TypeVar("T")


def check_logs(ours: MemoryLog, theirs: Iterable[LoggedRecord], surplus: Sequence[type[Message]] = ()) -> str:
    """The first difference, readable; empty if there is none.

    ``surplus`` are the keys of tombstones, one after the other, that only the embedded coordinator writes.
    """
    listed = _in_order(list(theirs), lambda pair: pair)
    written = _without(surplus, [record for batch in ours.read() for record in batch.records])
    written = _in_order(written, lambda record: (encode_key(record.key), encode_value(record)))
    names: dict[tuple[str, str, int], int] = {}
    for number, (record, (key, value)) in enumerate(zip(written, listed, strict=False)):
        known = decode_record(key, value)
        if known is None:
            return f"record {number}: Kafka's has a type that is not declared: {key.hex()}"
        adapted = _adapted(record, known, names)
        if encode_key(adapted.key) != key or encode_value(adapted) != value:
            return f"record {number} of {len(listed)}{_beside(known, adapted, key, value)}"
    if len(written) != len(listed):
        longer = [decode_record(*pair) for pair in listed] if len(listed) > len(written) else written
        extra = longer[min(len(written), len(listed))]
        return f"{len(listed)} records in Kafka, {len(written)} here; the first that is not in both: {_text(extra)}"
    return ""


def _in_order(records: list[T], as_bytes: Callable[[T], LoggedRecord]) -> list[T]:
    """The records, with those of ``TOGETHER`` that follow each other in the order of their keys."""

    def unordered(record: T) -> tuple[int, bool]:
        key, value = as_bytes(record)
        return int.from_bytes(key[:2], "big"), value is None

    ordered: list[T] = []
    for kind, run in groupby(records, unordered):
        same = list(run)
        ordered += sorted(same, key=lambda record: as_bytes(record)[0]) if kind in TOGETHER else same
    return ordered


def _without(surplus: Sequence[type[Message]], written: list[CoordinatorRecord]) -> list[CoordinatorRecord]:
    for start in range(len(written) if surplus else 0):
        chosen = written[start : start + len(surplus)]
        if [type(record.key) for record in chosen if record.value is None] == list(surplus):
            return written[:start] + written[start + len(surplus) :]
    return written


def _adapted(ours: CoordinatorRecord, theirs: CoordinatorRecord, names: dict[Any, int]) -> CoordinatorRecord:
    """Our record with Kafka's times, and with Kafka's numbers where they stand for the same."""
    value, known = ours.value, theirs.value
    if value is None or known is None or type(value) is not type(known):
        return ours
    changes: dict[str, Any] = {}
    for field in CLOCKS.get(type(value), ()):
        if (getattr(value, field) in NO_TIMES) == (getattr(known, field) in NO_TIMES):
            changes[field] = getattr(known, field)
    for field in NAMES.get(type(value), ()):
        our, their = getattr(value, field), getattr(known, field)
        is_same = names.setdefault((field, "ours", our), their) == their
        is_same = names.setdefault((field, "theirs", their), our) == our and is_same
        if is_same and (our == 0) == (their == 0):
            changes[field] = their
    for field in VERSIONS.get(type(value), ()):
        our, their = getattr(value, field), getattr(known, field)
        if names.setdefault((field, "theirs", their), our) == our:
            changes[field] = their
    for field in SETS.get(type(value), ()):
        changes[field] = _reordered(getattr(value, field), getattr(known, field))
    return CoordinatorRecord(ours.key, msgspec.structs.replace(value, **changes))


def _reordered(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Our elements in Kafka's order; ours as they are if they are not the same elements."""
    known = {_identity(element): element for element in ours}
    if sorted(map(_identity, ours)) != sorted(map(_identity, theirs)) or len(known) != len(ours):
        return ours
    return tuple(_same_order(known[_identity(element)], element) for element in theirs)


def _identity(element: Any) -> Any:
    return element.member_id if isinstance(element, r.GroupMetadataMember) else element.topic_id


def _same_order(ours: Any, theirs: Any) -> Any:
    """Our partitions, with their epochs, in Kafka's order."""
    if isinstance(ours, r.ShareGroupStateTopic):
        return ours
    if isinstance(ours, r.GroupMetadataMember):
        is_same = _assigned(ours.assignment) == _assigned(theirs.assignment)
        return msgspec.structs.replace(ours, assignment=theirs.assignment) if is_same else ours
    if sorted(ours.partitions) != sorted(theirs.partitions):
        return ours
    changes: dict[str, Any] = {"partitions": theirs.partitions}
    epochs = getattr(ours, "assignment_epochs", None)
    if epochs is not None:
        by_number = dict(zip(ours.partitions, epochs, strict=True))
        changes["assignment_epochs"] = tuple(by_number[number] for number in theirs.partitions)
    return msgspec.structs.replace(ours, **changes)


def _assigned(content: bytes) -> Any:
    """What an embedded assignment says, without order. In a group that was converted back Kafka made it of a set."""
    if not content:
        return None
    version, assignment = decode_assignment(content)
    topics = sorted((topic.topic, sorted(topic.partitions)) for topic in assignment.assigned_partitions)
    return version, topics, assignment.user_data


def _beside(theirs: CoordinatorRecord, ours: CoordinatorRecord, key: bytes, value: bytes | None) -> str:
    """Both records; as bytes if the fields are the same."""
    their_text, our_text = _text(theirs), _text(ours)
    if theirs == ours:
        their_text, our_text = _hex(key, value), _hex(encode_key(ours.key), encode_value(ours))
    return f"\n  Kafka:    {their_text}\n  embedded: {our_text}"


def _text(record: CoordinatorRecord | None) -> str:
    return "of another coordinator" if record is None else f"{record.key} -> {record.value}"


def _hex(key: bytes, value: bytes | None) -> str:
    return f"{key.hex()} -> {'tombstone' if value is None else value.hex()}"
