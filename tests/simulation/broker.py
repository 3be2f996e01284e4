"""The simulated broker: connections, topics, and the embedded coordinator, which may fail over.

Like a real broker it processes one request of a connection at a time, so a request waits behind a long poll or a
waiting JoinGroup, and it authorizes each request by the connection's principal. A failover keeps the log (every
answered change), restarts all timers, and for a while answers NOT_COORDINATOR and then COORDINATOR_LOAD_IN_PROGRESS.
The old coordinator may go on answering meanwhile, and longer, on the connections that it has
(:mod:`tests.simulation.deposed`).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.config import CoordinatorConfig
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.group_coordinator import GroupCoordinator
from coordinator.image import MetadataImage, TopicImage
from coordinator.log.batches import LoggedBatch
from coordinator.shard import Call as CoordinatorCall
from coordinator.uuids import SeededUuids
from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
)
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.consumer_protocol import decode_assignment
from protocol_codecs.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse
from protocol_codecs.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol_codecs.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol_codecs.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from protocol_codecs.messages.sync_group import SyncGroupResponse
from protocol_codecs.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.simulation.authorizer import Principal, names_a_hidden_topic, why_refused
from tests.simulation.deposed import Deposed
from tests.simulation.kernel import Kernel
from tests.simulation.network import Link
from tests.simulation.oversights import Oversights
from tests.simulation.standing import Pid, flat
from tests.simulation.watch import Watch
from tests.simulation.wire import GROUP, Ask, Reply

_LONG_POLL_MS = 500

LEFT_OUT = "descriptions without what members are to revoke"


class Log:
    """The coordinator's log, which survives a failover; it keeps changes as objects, without encoding them."""

    def __init__(self) -> None:
        self.changes: list[LoggedBatch] = []
        self._next_offset = 0

    def append(self, records: Sequence[Any], now_ms: int, producer_id: int = -1) -> None:
        self.changes.append(LoggedBatch(self._next_offset, tuple(records), producer_id))
        self._next_offset += len(records)

    def append_marker(self, producer_id: int, marker: int, now_ms: int) -> None:
        self.changes.append(LoggedBatch(self._next_offset, (), producer_id, marker))
        self._next_offset += 1

    def read(self) -> Iterator[LoggedBatch]:
        yield from self.changes


class _Served:
    """The broker's side of a connection."""

    __slots__ = ("busy_with", "link", "queue")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.queue: deque[Ask] = deque()
        self.busy_with: int | None = None


class Broker:
    """One simulated broker; see the module."""

    def __init__(self, kernel: Kernel, watch: Watch, config: CoordinatorConfig) -> None:
        self.kernel = kernel
        self.watch = watch
        self.config = config
        self.trouble: ErrorCode | None = None
        """The error that it answers while it is not the coordinator, or not yet."""
        self._log = Log()
        self._uuids = SeededUuids(kernel.random.getrandbits(32))
        self._connections: dict[Link, _Served] = {}
        self._waiting: dict[int, tuple[_Served, Ask]] = {}
        self._last_request = 0
        self._booked_ms: int | None = None
        self._group: Any = None
        self._deposed: dict[Link, Deposed] = {}
        """The connections that still lead to a coordinator which has been deposed."""
        self.oversights = Oversights()
        self.is_down = False
        """Whether it is away: every connection to it ends at once."""
        self.coordinator = GroupCoordinator(config, uuids=self._uuids, log=self._log)

    def __repr__(self) -> str:
        return "broker"

    # -- connections ---------------------------------------------------------------------------------------------

    def received(self, link: Link, ask: Ask) -> None:
        if self.is_down or not link.principal.is_authenticated:
            link.close(self)
            return
        served = self._connections.get(link)
        if served is None:
            served = self._connections[link] = _Served(link)
        served.queue.append(ask)
        self._serve(served)

    def disconnected(self, link: Link) -> None:
        self._deposed.pop(link, None)
        served = self._connections.pop(link, None)
        if served is not None and served.busy_with is not None:
            self._waiting.pop(served.busy_with, None)
            self.coordinator.forget(served.busy_with)

    def cut_all(self) -> None:
        """Close every connection, as when the broker goes down."""
        for link in list(self._connections):
            link.close(self)
            self.disconnected(link)

    # -- requests ------------------------------------------------------------------------------------------------

    def _serve(self, served: _Served) -> None:
        while served.queue and served.busy_with is None:
            ask = served.queue.popleft()
            self._last_request += 1
            request_id = self._last_request
            served.busy_with = request_id
            self._waiting[request_id] = served, ask
            if ask.api_key == ApiKey.FETCH:
                self.kernel.after(_LONG_POLL_MS, self._answer, request_id, "records")
            elif ask.api_key == ApiKey.METADATA:
                hidden = served.link.principal.hidden_topics
                self._answer(request_id, metadata(self.coordinator.shard.image, ask.message, hidden))
            elif (code := why_refused(served.link.principal, ask)) is not None:
                self._answer(request_id, refusal(ask, code))
            elif (deposed := self._deposed.get(served.link)) is not None:
                self._serve_from_old_state(deposed, request_id, ask)
            elif self.trouble is not None:
                self._answer(request_id, refusal(ask, self.trouble))
            else:
                self._advance()
                call = CoordinatorCall(request_id, ask.version, ask.client_id, "/proxy")
                member_id = ask.message.member_id if ask.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT else ""
                before = self.owned(member_id)
                instance_id = ask.message.group_instance_id if ask.api_key == ApiKey.JOIN_GROUP else None
                holder = self._static_member(instance_id)
                replies = self.coordinator.handle(ask.message, call, self.kernel.now_ms)
                if instance_id is not None:
                    self.watch.memberships.takeover_served(
                        ask.message, holder, self._static_member(instance_id)
                    )
                given_up = not served.link.open_for(served.link.near)
                is_late = given_up and getattr(ask.message, "topic_partitions", None) is not None
                self.watch.released(self, member_id, before - self.owned(member_id), is_late=is_late)
                self._carry_out(replies)

    def _carry_out(self, replies: list[Any]) -> None:
        before, self._group = self._group, self.coordinator.shard.groups.get(GROUP)
        if missed := self.oversights.served(before, self._group, self._assigned):
            self.watch.tell(self, f"gives {self.watch.story.partitions(missed)} to nobody")
        for reply in replies:
            self._answer(reply.request_id, reply.response)
        self._book()

    def _answer(self, request_id: int, response: Any) -> None:
        waiting = self._waiting.pop(request_id, None)
        if waiting is None:
            return
        served, ask = waiting
        served.busy_with = None
        if ask.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE:
            response = _visible(served.link.principal, response)
            self._count_what_is_left_out()
        self.watch.said(self, served.link, ask, response)
        served.link.send(self, Reply(ask.number, response))
        self._serve(served)

    # -- time ----------------------------------------------------------------------------------------------------

    def _book(self) -> None:
        deadline_ms = self.coordinator.next_deadline_ms()
        if deadline_ms is not None and (self._booked_ms is None or deadline_ms < self._booked_ms):
            self._booked_ms = deadline_ms
            self.kernel.at(deadline_ms, self._wake, deadline_ms)

    def _wake(self, booked_ms: int) -> None:
        if self._booked_ms != booked_ms:
            return
        self._booked_ms = None
        if self.trouble is None:
            self._advance()
            self._book()

    def _advance(self) -> None:
        """Fire the coordinator's timers that are due, and report the members that they removed."""
        due_ms = self.coordinator.next_deadline_ms()
        if due_ms is None or due_ms > self.kernel.now_ms:
            return
        before, awaited = self.members(), self._awaited()
        self._carry_out(self.coordinator.advance(self.kernel.now_ms))
        for member_id in sorted(before - self.members()):
            self.watch.expired(self, member_id)
        for member_id in sorted((awaited & self.members()) - self._awaited()):
            self.watch.passed_over(self, member_id)

    def _awaited(self) -> frozenset[str]:
        """Return the members whose JoinGroup a classic group's rebalance waits for."""
        group = self.classic_group
        if group is None or group.state is not ClassicGroupState.PREPARING_REBALANCE:
            return frozenset()
        return frozenset(one.member_id for one in group.members.values() if one.awaiting_join is None)

    def _count_what_is_left_out(self) -> None:
        shows_all = self.config.consumer_describes_pending_revocation
        if (
            not shows_all
            and self.group
            and any(one.pending_revocation for one in self.group.members.values())
        ):
            self.watch.count(LEFT_OUT)

    # -- failover ------------------------------------------------------------------------------------------------

    def fail_over(self, *, away_ms: int, loading_ms: int, cuts: bool) -> None:
        """Make another broker the coordinator: first none answers for the group, then the new one loads the log."""
        self.watch.moved_on_ms = self.kernel.now_ms
        self.oversights.failed_over(self._group)
        for reply in self.coordinator.unload():
            self._answer(reply.request_id, reply.response)
        self.trouble = ErrorCode.NOT_COORDINATOR
        if cuts:
            self.cut_all()
        self.kernel.after(away_ms, self._load, loading_ms)

    def go_down(self, *, for_ms: int, loading_ms: int) -> None:
        """Be away with all connections, and load the log when it is back; no request that waits is answered."""
        self.watch.moved_on_ms = self.kernel.now_ms
        self.oversights.failed_over(self._group)
        self.is_down = True
        self.trouble = ErrorCode.NOT_COORDINATOR
        self.cut_all()
        self.kernel.after(for_ms, self._come_back, loading_ms)

    def _come_back(self, loading_ms: int) -> None:
        self.is_down = False
        self._load(loading_ms)

    def leave_deposed(self, *, for_ms: int, knows: bool) -> None:
        """Have the coordinator go on answering on its connections for a while, although it is about to be deposed.

        Not on those without READ: what they write to another group would hold up what others ask of this one, and
        nobody may see a difference from such connections (invariant 7).
        """
        deposed = Deposed(self.coordinator, knows=knows)
        links = [
            link for link in self._connections if link not in self._deposed and link.principal.reads_group
        ]
        self._deposed.update(dict.fromkeys(links, deposed))
        self.kernel.after(for_ms, self._end_deposed, deposed)

    def _serve_from_old_state(self, deposed: Deposed, request_id: int, ask: Ask) -> None:
        response = deposed.serve(ask, self.kernel.now_ms)
        if isinstance(response, ErrorCode):
            response = refusal(ask, response)
        elif response is not None:
            self.watch.count(f"{ApiKey(ask.api_key).name} answered from old state")
            self.watch.tell(self, "answers from old state", response)
            self.watch.memberships.answered_from_old_state(ask, response)
        if response is not None:
            self._answer(request_id, response)

    def _end_deposed(self, deposed: Deposed) -> None:
        for link in [link for link, its in self._deposed.items() if its is deposed]:
            served = self._connections[link]
            if served.busy_with is not None:
                _, ask = self._waiting[served.busy_with]
                if ask.api_key != ApiKey.FETCH:
                    self._answer(served.busy_with, refusal(ask, ErrorCode.NOT_COORDINATOR))
            link.close(self)
            self.disconnected(link)

    def _load(self, loading_ms: int) -> None:
        self.trouble = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self.kernel.after(loading_ms, self._loaded)

    def _loaded(self) -> None:
        image = self.coordinator.shard.image
        # Requests that waited are not answered any more: their connections or their clients have given up.
        self.coordinator = GroupCoordinator(self.config, uuids=self._uuids, log=self._log, image=image)
        self.coordinator.load(self.kernel.now_ms)
        self.trouble = None
        self._booked_ms = None
        self._book()

    # -- topics --------------------------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        return self.coordinator.shard.image

    def set_topic(self, name: str, partitions: int, *, new_id: bool = False) -> None:
        """Create a topic, add partitions to it, or (``new_id``) delete it and create it again."""
        topic = self.image.by_name(name)
        known = 0 if topic is None or new_id else topic.partitions
        if topic is None or new_id:
            topic = TopicImage(self._uuids.next(), name, partitions)
        else:
            topic = msgspec.structs.replace(topic, partitions=partitions)
        self.oversights.added({(topic.topic_id, index) for index in range(known, partitions)})
        self._take(self.image.with_topic(topic))

    def delete_topic(self, name: str) -> None:
        self._take(self.image.without(name))

    def _take(self, image: MetadataImage) -> None:
        if self.trouble is None:
            self._advance()  # else timers that are due at this moment would fire unseen
            self._carry_out(self.coordinator.update_image(image, self.kernel.now_ms))
        else:
            self.coordinator.shard.image = image

    # -- what the invariants look at -----------------------------------------------------------------------------

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.coordinator.shard.groups.get(GROUP)
        return group if isinstance(group, ConsumerGroup) else None

    def _static_member(self, instance_id: str | None) -> str:
        """Return the id of the group's member with an instance id; empty if there is none."""
        group: Any = self.coordinator.shard.groups.get(GROUP)
        if group is None or instance_id is None:
            return ""
        member_id: str = group.static_members.get(instance_id, "")
        return member_id

    def members(self) -> frozenset[str]:
        """Return the ids of the group's members, of either protocol."""
        group = self.coordinator.shard.groups.get(GROUP)
        return frozenset() if group is None else frozenset(group.members)

    def owned(self, member_id: str) -> frozenset[Pid]:
        """Return the partitions that the coordinator counts as the member's, including those pending revocation."""
        if self.group is None:
            return self._classic_assignment(member_id)
        member = self.group.members.get(member_id)
        if member is None:
            return frozenset()
        return flat(member.assigned) | flat(member.pending_revocation)

    @property
    def classic_group(self) -> ClassicGroup | None:
        group = self.coordinator.shard.groups.get(GROUP)
        return group if isinstance(group, ClassicGroup) else None

    def _classic_assignment(self, member_id: str) -> frozenset[Pid]:
        """Return the partitions that the leader of a classic group assigned to this member."""
        group = self.classic_group
        member = None if group is None else group.members.get(member_id)
        if member is None or not member.assignment:
            return frozenset()
        _, assignment = decode_assignment(member.assignment)
        topics = self.image.topics
        return frozenset(
            (topics[topic.topic].topic_id, index)
            for topic in assignment.assigned_partitions
            if topic.topic in topics
            for index in topic.partitions
        )

    def _assigned(self) -> frozenset[Pid]:
        return frozenset().union(*map(self.target, self.members()))

    def target(self, member_id: str) -> frozenset[Pid]:
        """Return the member's target assignment."""
        if self.group is None:
            return self._classic_assignment(member_id)
        return flat(self.group.target_assignment.get(member_id, {}))


def _visible(principal: Principal, response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
    """Remove the members of groups in which the principal may not describe a topic."""
    groups = tuple(
        ConsumerGroupDescribeResponseDescribedGroup(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, group_id=group.group_id
        )
        if names_a_hidden_topic(principal, group)
        else group
        for group in response.groups
    )
    return msgspec.structs.replace(response, groups=groups)


def metadata(image: MetadataImage, message: Any, hidden: frozenset[str] = frozenset()) -> MetadataResponse:
    """Return the requested topics, by name or by id, without the ``hidden`` ones."""
    topics = []
    for asked in message.topics:
        topic = image.by_id(asked.topic_id) if asked.name is None else image.by_name(asked.name)
        if asked.name in hidden:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            topics.append(MetadataResponseTopic(error_code=code, name=asked.name))
        elif topic is None or topic.name in hidden:
            unknown = (
                ErrorCode.UNKNOWN_TOPIC_ID if asked.name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            topics.append(MetadataResponseTopic(error_code=unknown, name=asked.name, topic_id=asked.topic_id))
        else:
            partitions = tuple(MetadataResponsePartition(partition_index=n) for n in range(topic.partitions))
            topics.append(
                MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
            )
    return MetadataResponse(topics=tuple(topics))


def refusal(ask: Ask, code: ErrorCode) -> Any:
    """Return the error answer of a broker that is not the coordinator, or is still loading."""
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # Old clients end on it there, so brokers do not send it (GroupCoordinatorService).
        code = {
            ApiKey.HEARTBEAT: ErrorCode.NONE,
            ApiKey.SYNC_GROUP: ErrorCode.REBALANCE_IN_PROGRESS,
        }.get(ApiKey(ask.api_key), code)
    match ask.api_key:
        case ApiKey.CONSUMER_GROUP_HEARTBEAT:
            return ConsumerGroupHeartbeatResponse(error_code=code)
        case ApiKey.CONSUMER_GROUP_DESCRIBE:
            groups = tuple(
                ConsumerGroupDescribeResponseDescribedGroup(error_code=code, group_id=group_id)
                for group_id in ask.message.group_ids
            )
            return ConsumerGroupDescribeResponse(groups=groups)
        case ApiKey.DESCRIBE_GROUPS:
            described = tuple(
                DescribedGroup(error_code=code, group_id=group_id) for group_id in ask.message.groups
            )
            return DescribeGroupsResponse(groups=described)
        case ApiKey.JOIN_GROUP:
            return JoinGroupResponse(error_code=code, member_id=ask.message.member_id)
        case ApiKey.SYNC_GROUP:
            return SyncGroupResponse(error_code=code)
        case ApiKey.HEARTBEAT:
            return HeartbeatResponse(error_code=code)
        case ApiKey.LEAVE_GROUP:
            return LeaveGroupResponse(error_code=code)
        case ApiKey.OFFSET_COMMIT | ApiKey.TXN_OFFSET_COMMIT:
            return _refused_commit(ask, code)
        case ApiKey.OFFSET_FETCH:
            fetched = tuple(
                OffsetFetchResponseGroup(error_code=code, group_id=group.group_id)
                for group in ask.message.groups
            )
            return OffsetFetchResponse(error_code=code, groups=fetched)
    raise AssertionError(ask)


def _refused_commit(ask: Ask, code: ErrorCode) -> OffsetCommitResponse | TxnOffsetCommitResponse:
    refused = [
        (topic.name, topic.topic_id, [partition.partition_index for partition in topic.partitions])
        for topic in ask.message.topics
    ]
    if ask.api_key == ApiKey.TXN_OFFSET_COMMIT:
        return TxnOffsetCommitResponse(
            topics=tuple(
                TxnOffsetCommitResponseTopic(
                    name=name,
                    topic_id=topic_id,
                    partitions=tuple(
                        TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)
                        for index in indexes
                    ),
                )
                for name, topic_id, indexes in refused
            )
        )
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=name,
                topic_id=topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(partition_index=index, error_code=code) for index in indexes
                ),
            )
            for name, topic_id, indexes in refused
        )
    )
