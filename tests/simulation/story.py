"""The history of a run as readable text: one line for each event, in the order of time.

Lines are kept as objects and formatted only when somebody reads them.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from protocol_codecs import ApiKey, ErrorCode, Uuid
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.consumer_protocol import decode_assignment, decode_subscription
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupRequest
from protocol_codecs.messages.offset_commit import OffsetCommitRequest
from protocol_codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol_codecs.messages.txn_offset_commit import TxnOffsetCommitRequest
from translation.actions import Event
from translation.members.member_ids import ISSUED_PREFIX


class Story:
    """The events of a run. ``topic_names`` grows as topics are created, and keeps those that are deleted."""

    def __init__(self) -> None:
        self.topic_names: dict[Uuid, str] = {}
        self._lines: list[tuple[int, str, str, Any]] = []
        self._asides: set[int] = set()

    def tell(self, now_ms: int, who: str, what: str, thing: Any = None, *, aside: bool = False) -> None:
        """Add a line; an ``aside`` concerns only a hostile connection."""
        if aside:
            self._asides.add(len(self._lines))
        self._lines.append((now_ms, who, what, thing))

    def without_asides(self) -> Iterator[str]:
        """Return the lines that must be the same without hostile connections."""
        return (self._line(line) for n, line in enumerate(self._lines) if n not in self._asides)

    def learn_topic(self, topic_id: Uuid, name: str) -> None:
        """Give a topic a name; a recreated one gets an apostrophe."""
        if topic_id not in self.topic_names:
            again = sum(known.rstrip("'") == name for known in self.topic_names.values())
            self.topic_names[topic_id] = name + "'" * again

    def partitions(self, pids: Iterable[tuple[Uuid, int]]) -> str:
        """Format partitions by their topics' names."""
        topics: dict[str, list[int]] = {}
        for topic_id, index in sorted(pids):
            topics.setdefault(self.topic_names.get(topic_id, topic_id.hex()[:6]), []).append(index)
        listed = " ".join(f"{name}{_indexes(indexes)}" for name, indexes in topics.items())
        return listed or "nothing"

    def __str__(self) -> str:
        return "\n".join(map(self._line, self._lines))

    def _line(self, line: tuple[int, str, str, Any]) -> str:
        at_ms, who, what, thing = line
        return f"{at_ms / 1000:9.3f}  {who:<12} {what}{self._words(thing)}"

    def _words(self, thing: Any) -> str:
        match thing:
            case None:
                return ""
            case frozenset():
                return f" {self.partitions(thing)}"
            case Event():
                return f" {_event(thing)}"
            case str():
                return f" {thing}"
        return f" {self.message(thing)}"

    def message(self, message: Any) -> str:  # noqa: C901 - a line for each message, and nothing between them
        """Format a request or response in a few words."""
        match message:
            case JoinGroupRequest():
                _, subscription = decode_subscription(message.protocols[0].metadata)
                instance = f" instance {message.group_instance_id}" if message.group_instance_id else ""
                return (
                    f"JoinGroup as {short(message.member_id)}{instance} "
                    f"({', '.join(p.name for p in message.protocols)}), "
                    f"claims {_named(subscription.owned_partitions)}"
                )
            case JoinGroupResponse():
                if message.error_code:
                    return f"JoinGroup: {_code(message)} (member id {short(message.member_id)})"
                return f"JoinGroup: {short(message.member_id)} at generation {message.generation_id}"
            case SyncGroupRequest():
                return f"SyncGroup of {short(message.member_id)} generation {message.generation_id}"
            case SyncGroupResponse():
                if message.error_code:
                    return f"SyncGroup: {_code(message)}"
                _, assignment = decode_assignment(message.assignment)
                return f"SyncGroup: assigned {_named(assignment.assigned_partitions)}"
            case HeartbeatRequest():
                return f"Heartbeat of {short(message.member_id)} generation {message.generation_id}"
            case OffsetCommitRequest():
                return (
                    f"OffsetCommit of {short(message.member_id)} generation "
                    f"{message.generation_id_or_member_epoch} {_committed(message)}"
                )
            case TxnOffsetCommitRequest():
                return (
                    f"TxnOffsetCommit of {short(message.member_id)} generation "
                    f"{message.generation_id_or_member_epoch} {_committed(message)}"
                )
            case LeaveGroupRequest():
                leaving = message.member_id or message.members[0].member_id
                return f"LeaveGroup of {short(leaving or message.members[0].group_instance_id)}"
            case ConsumerGroupHeartbeatRequest():
                owned = "null" if message.topic_partitions is None else self._topics(message.topic_partitions)
                full = "full " if message.rebalance_timeout_ms >= 0 else ""
                return f"{full}heartbeat for {short(message.member_id)} epoch {message.member_epoch}, owned {owned}"
            case ConsumerGroupHeartbeatResponse():
                if message.error_code:
                    return f"heartbeat: {_code(message)} {message.error_message or ''}"
                news = (
                    ""
                    if message.assignment is None
                    else f", assigned {self._topics(message.assignment.topic_partitions)}"
                )
                return f"heartbeat: epoch {message.member_epoch}{news}"
        name = type(message).__name__
        codes = sorted(_codes(message))
        return f"{name} {', '.join(ErrorCode(code).name for code in codes)}" if codes else name

    def _topics(self, topics: Iterable[Any]) -> str:
        return self.partitions((topic.topic_id, index) for topic in topics for index in topic.partitions)


def api_name(api_key: int) -> str:
    """Return an API's name for the story."""
    return ApiKey(api_key).name


def short(member_id: str | None) -> str:
    """Shorten a member id to the part that tells it from others."""
    return (member_id or "nobody").removeprefix(ISSUED_PREFIX)[:8]


def _code(message: Any) -> str:
    return ErrorCode(message.error_code).name


def _codes(message: Any) -> set[int]:
    if hasattr(message, "error_code"):
        return {message.error_code}
    return {
        p.error_code
        for t in getattr(message, "topics", ())
        for p in getattr(t, "partitions", ())
        if hasattr(p, "error_code")
    }


def _indexes(indexes: Iterable[int]) -> str:
    return f"[{','.join(map(str, indexes))}]"


def _named(topics: Iterable[Any]) -> str:
    return " ".join(f"{topic.topic}{_indexes(topic.partitions)}" for topic in topics) or "nothing"


def _committed(message: OffsetCommitRequest | TxnOffsetCommitRequest) -> str:
    return " ".join(f"{t.name}{_indexes(p.partition_index for p in t.partitions)}" for t in message.topics)


def _event(event: Event) -> str:
    listed = " ".join(f"{one.topic}{_indexes(one.partitions)}" for one in event.partitions)
    change = f" {event.previous_state} -> {event.state}" if event.previous_state else f" ({event.state})"
    words = f"[{event.kind}: {short(event.member_id)}{change if event.state else ''}"
    return f"{words}{' ' + listed if listed else ''}{', ' + event.reason if event.reason else ''}]"
