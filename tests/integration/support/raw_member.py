"""A classic member made by hand, a request at a time: for calls that no client library can be made to do."""

import dataclasses
import datetime as dt
import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from kio.schema.consumer_protocol_assignment.v1.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_assignment.v1.data import TopicPartition as AssignedPartitions
from kio.schema.consumer_protocol_subscription.v1.data import ConsumerProtocolSubscription, TopicPartition
from kio.schema.consumer_protocol_subscription.v3.data import (
    ConsumerProtocolSubscription as SubscriptionWithRack,
)
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.leave_group.v3.request import LeaveGroupRequest, MemberIdentity
from kio.schema.offset_commit.v7.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.sync_group.v3.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.types import GroupId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i32Timedelta, i64

from support import raw
from support.waiting import eventually

NONE, LOADING, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 0, 14, 22, 27, 79

KNOWN_ID = 4
"""The first version of JoinGroup that gives a new member its id with MEMBER_ID_REQUIRED."""

_NO_PARTITIONS = bytes(4)  # the length of an empty array

Topics = Mapping[str, frozenset[int]]


@dataclass(frozen=True)
class Offer:
    """What a member's JoinGroup says of its client."""

    protocol_type: str = "consumer"
    assignor: str = "range"
    instance_id: str | None = None
    rack: str | None = None
    join_version: int = 5
    subscription_version: int = 1


class RawMember:
    """Joins with range, eager or with what it says it owns; leads if the coordinator makes it the leader."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        *other_topics: str,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 30_000,
        user_data: bytes | None = None,
        cut_short: bool = False,
        offer: Offer | None = None,
        **options: Any,
    ) -> None:
        """`user_data` is what it writes into the assignments as a leader, as some assignors do; with `cut_short` its
        subscription ends before the owned partitions, as kafka-go's does. `offer` is what it says of itself, if that is
        not a consumer with range.
        """
        self._offer = offer or Offer()
        self._cut_short = cut_short
        self._user_data = user_data
        self._connection = raw.to_coordinator(bootstrap, group, **options)
        self._group = GroupId(group)
        self._topic = TopicName(topic)
        self._topics = (self._topic, *map(TopicName, other_topics))
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout = dt.timedelta(milliseconds=rebalance_timeout_ms)
        self._joining: Any = None
        self._members: tuple[str, ...] = ()
        self.member_id = ""
        self.generation = i32(-1)
        self.leads = False

    def send_join(self, owned: Topics | None = None) -> None:
        """Send JoinGroup; the coordinator may answer only when others have joined too.

        A new member first gets its id with MEMBER_ID_REQUIRED, as every client since 2.2 does, once the coordinator has
        loaded.
        """
        if not self.member_id and self._offer.instance_id is None and self._offer.join_version >= KNOWN_ID:
            answer = eventually(
                lambda: self._connection.call(self._join_request({})),
                lambda answer: answer.error_code != LOADING,
                what="the coordinator has loaded its groups",
            )
            assert answer.error_code == MEMBER_ID_REQUIRED, answer
            self.member_id = answer.member_id
        self._joining = self._join_request(owned or {})
        self._connection.send(self._joining)

    def has_answer(self) -> bool:
        """Whether the answer to what was sent has come."""
        return self._connection.has_answer()

    def receive_join(self) -> None:
        """The answer."""
        assert self._joining is not None, "nothing was sent"
        answer = self._connection.receive(self._joining)
        assert answer.error_code == NONE, answer
        self.generation = answer.generation_id
        self.member_id = answer.member_id
        self.leads = answer.leader == answer.member_id
        self._members = tuple(member.member_id for member in answer.members)

    def join(self, owned: Topics | None = None) -> None:
        """JoinGroup and its answer."""
        self.send_join(owned)
        self.receive_join()

    def refused(self) -> int:
        """The error code of a JoinGroup that is refused, at once or once the member has its id."""
        answer = self._connection.call(self._join_request({}))
        if answer.error_code == MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self._connection.call(self._join_request({}))
        return int(answer.error_code)

    def sync(
        self,
        partitions: int = 0,
        shares: Mapping[str, frozenset[int]] | None = None,
        assignments: Mapping[str, Topics] | None = None,
    ) -> Topics:
        """SyncGroup; a leader shares out `partitions` of the topic, one to each in turn, or `shares` by member id, or
        whole `assignments`.

        Repeated until the coordinator has loaded its groups: a Heartbeat before it does not tell, since Kafka answers
        it with no error while it loads.
        """
        if shares is None:
            shares = {
                member: frozenset(range(turn, partitions, len(self._members)))
                for turn, member in enumerate(self._members if self.leads else ())
            }
        if assignments is None:
            assignments = {member: {self._topic: share} for member, share in shares.items()}
        request = self._sync_request(assignments)
        answer = eventually(
            lambda: self._connection.call(request),
            lambda answer: answer.error_code != LOADING,
            what="the coordinator has loaded its groups",
        )
        assert answer.error_code == NONE, answer
        assignment, _ = entity_reader(ConsumerProtocolAssignment)(answer.assignment, 2)
        return {at.topic: frozenset(at.partitions) for at in assignment.assigned_partitions}

    def heartbeat(self) -> int:
        """The error code of Heartbeat."""
        return int(self._connection.call(self._heartbeat_request()).error_code)

    def commit(self, partition: int, offset: int, *, generation: int | None = None) -> int:
        """The error code of OffsetCommit, with this generation instead of the current one if given."""
        at = OffsetCommitRequestPartition(
            partition_index=i32(partition), committed_offset=i64(offset), committed_metadata=None
        )
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self.generation if generation is None else i32(generation),
            member_id=self.member_id,
            group_instance_id=None,
            topics=(OffsetCommitRequestTopic(name=self._topic, partitions=(at,)),),
        )
        return int(self._connection.call(request).topics[0].partitions[0].error_code)

    def leave(self) -> None:
        """LeaveGroup."""
        request = LeaveGroupRequest(group_id=self._group, members=(MemberIdentity(member_id=self.member_id),))
        assert self._connection.call(request).error_code == NONE

    def call(self, request: Any) -> Any:
        """Another request on its connection."""
        return self._connection.call(request)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def vanish_in_a_frame(self) -> None:
        """Half of a Heartbeat, then a reset."""
        frame = self._connection.frame(self._heartbeat_request())
        self._connection.send_bytes(struct.pack(">i", len(frame)) + frame[:-3])
        self._connection.vanish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def _heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=self._group, generation_id=self.generation, member_id=self.member_id)

    def _join_request(self, owned: Topics) -> Any:
        schema = import_module(f"kio.schema.join_group.v{self._offer.join_version}.request")
        fields: dict[str, Any] = {
            "rebalance_timeout": i32Timedelta.parse(self._rebalance_timeout),
            "group_instance_id": self._offer.instance_id,
        }
        known = {field.name for field in dataclasses.fields(schema.JoinGroupRequest)}
        return schema.JoinGroupRequest(
            group_id=self._group,
            session_timeout=i32Timedelta.parse(dt.timedelta(milliseconds=self._session_timeout_ms)),
            member_id=self.member_id,
            protocol_type=self._offer.protocol_type,
            protocols=(
                schema.JoinGroupRequestProtocol(
                    name=self._offer.assignor, metadata=self._subscription(owned)
                ),
            ),
            **{name: value for name, value in fields.items() if name in known},
        )

    def _subscription(self, owned: Topics) -> bytes:
        if self._offer.rack is not None:
            return embedded(
                SubscriptionWithRack(
                    topics=self._topics, user_data=None, owned_partitions=(), rack_id=self._offer.rack
                )
            )
        if self._offer.subscription_version != 1:
            schema = import_module(
                f"kio.schema.consumer_protocol_subscription.v{self._offer.subscription_version}.data"
            )
            claims = {"owned_partitions": ()} if self._offer.subscription_version else {}
            return embedded(
                schema.ConsumerProtocolSubscription(topics=self._topics, user_data=None, **claims)
            )
        claim = tuple(
            TopicPartition(topic=TopicName(topic), partitions=tuple(map(i32, at)))
            for topic, at in owned.items()
        )
        whole = embedded(ConsumerProtocolSubscription(topics=self._topics, owned_partitions=claim))
        return whole[: -len(_NO_PARTITIONS)] if self._cut_short else whole

    def _sync_request(self, assignments: Mapping[str, Topics]) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member, assignment=self._assignment(share))
                for member, share in assignments.items()
            ),
        )

    def _assignment(self, share: Topics) -> bytes:
        given = tuple(
            AssignedPartitions(topic=TopicName(topic), partitions=tuple(map(i32, sorted(partitions))))
            for topic, partitions in share.items()
            if partitions
        )
        return embedded(ConsumerProtocolAssignment(assigned_partitions=given, user_data=self._user_data))


def embedded(data: Any) -> bytes:
    """With the two bytes of version that precede embedded consumer protocol data."""
    buffer = io.BytesIO()
    buffer.write(data.__version__.to_bytes(2))
    entity_writer(type(data))(buffer, data)
    return buffer.getvalue()
