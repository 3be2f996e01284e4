"""One hosted group: its clients, and the embedded coordinator that has it (theory of operation: the package)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coordinator.consumer_groups.client_side.choice import chosen_assignor
from coordinator.consumer_groups.client_side.declaring import MOST_ASSIGNORS
from coordinator.consumer_groups.group import CONSUMER_PROTOCOL_TYPE, ConsumerGroup
from coordinator.consumer_groups.member import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupMember,
    MemberState,
)
from coordinator.errors import BrokenInvariant
from coordinator.group_coordinator import GroupCoordinator
from coordinator.hosted_groups import embedded
from coordinator.hosted_groups.member import ClientCall, Given, HostedMember, Leadership, Offer, WaitingJoin
from coordinator.hosted_groups.settings import COORDINATOR_CONFIG, HostedSettings
from coordinator.image import MetadataImage, TopicImage
from coordinator.partitions import EpochedPartitions, Partitions, same_partitions
from coordinator.shard import Call
from coordinator.uuids import UuidSource
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.errors import CodecError
from protocol_codecs.experimental import (
    ClientAssignorsHeartbeatRequest,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentRequestMember,
    ConsumerGroupInstallAssignmentRequestTopicPartition,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    HeartbeatClientAssignor,
)
from protocol_codecs.message import Message
from protocol_codecs.messages import (
    ConsumerGroupHeartbeatRequestTopicPartitions,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from protocol_codecs.uuids import Uuid

_CALL_VERSION = 1
_MOST_STEPS = 3
"""How often in a row a member may move: revoke, take over, and once more for a target that came meanwhile."""
_GONE = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)

Answer = Callable[[ClientCall, Message], None]


class HostedGroup:
    """One group. Each method is told the time (milliseconds); ``answer`` gets the answers of waiting JoinGroups.

    ``started_ms`` is when this process has begun: clients of an earlier one may own partitions until their session
    timeout has passed from then on.
    """

    def __init__(
        self,
        group_id: str,
        settings: HostedSettings,
        uuids: UuidSource,
        answer: Answer,
        *,
        started_ms: int,
        now_ms: int,
    ) -> None:
        self.group_id = group_id
        self.members: dict[str, HostedMember] = {}
        self._static_members: dict[str, HostedMember] = {}
        """By instance id."""
        self.installs = 0
        """How many assignments of clients became the target, and how many were refused."""
        self.refusals = 0
        self._settings = settings
        self._answer = answer
        self._started_ms = started_ms
        self._opens_ms: int | None = now_ms + settings.initial_delay_ms
        """Until when no JoinGroup is answered; None if that is over."""
        self._coordinator = GroupCoordinator(COORDINATOR_CONFIG, uuids=uuids)
        self._topic_names: dict[Uuid, str] = {}
        self._computed_size = 0
        self._held_back: dict[str, Partitions] | None = None
        """What a cooperative assignor left to each member, while the rest waits for its second round."""

    # -- what others ask ------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """How many bytes are kept of its clients: of JoinGroups, and of what was computed."""
        given = sum(len(one.given.assignment) for one in self.members.values() if one.given is not None)
        return given + self._computed_size + sum(one.size for one in self.members.values())

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def next_deadline_ms(self) -> int | None:
        """Return when :meth:`advance` has something to do; None if never."""
        deadlines = [
            member.session_deadline_ms if member.join is None else (self._opens_ms or member.join.limit_ms)
            for member in self.members.values()
        ]
        if (due := self._coordinator.next_deadline_ms()) is not None:
            deadlines.append(due)
        return min(deadlines, default=None)

    def static_member(self, instance_id: str | None) -> HostedMember | None:
        """Return the member with this instance id, if there is one."""
        if instance_id is None:
            return None
        return self._static_members.get(instance_id)

    def why_refused(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Return the error of a call with this generation; NONE if it is the member's present one."""
        member = self.members.get(member_id)
        static = self.static_member(instance_id)
        if static is not None and static.member_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == member.generation else ErrorCode.ILLEGAL_GENERATION

    def assigned_to(self, member_id: str) -> Mapping[str, tuple[int, ...]]:
        """Return what a member may own now, by topic name."""
        own = self._own(self.members[member_id])
        partitions = {} if own is None else _plain(own.assigned)
        return {self._topic_names[topic_id]: numbers for topic_id, numbers in partitions.items()}

    # -- JoinGroup ------------------------------------------------------------------------------------------------

    def join(
        self,
        call: ClientCall,
        message: JoinGroupRequest,
        new_id: Callable[[], str],
        now_ms: int,
        room_left: int,
    ) -> JoinGroupResponse | None:
        """Serve a JoinGroup without a member id, or of a member; return None if it waits.

        ``room_left`` is how many more bytes may be kept of all groups.
        """
        known = self.members.get(message.member_id)
        if known is not None and known.instance_id != message.group_instance_id:
            return _refused_join(message.member_id, ErrorCode.FENCED_INSTANCE_ID)
        replaced = self.static_member(message.group_instance_id) if known is None else None
        offer = self._check_join(call, message, known or replaced, room_left)
        if isinstance(offer, ErrorCode):
            return _refused_join(message.member_id, offer)
        rebalance_timeout_ms = message.rebalance_timeout_ms if call.version else message.session_timeout_ms
        if known is None:
            return self._join_anew(
                call,
                HostedMember(
                    member_id=new_id(),
                    instance_id=message.group_instance_id,
                    client_id=call.client_id,
                    client_host=call.client_host,
                    session_timeout_ms=message.session_timeout_ms,
                    rebalance_timeout_ms=max(0, rebalance_timeout_ms),
                    topics=offer.topics,
                    subscriptions=offer.subscriptions,
                    size=offer.size,
                    session_deadline_ms=now_ms + message.session_timeout_ms,
                ),
                replaced,
                now_ms,
            )
        self._abandon_join(known, ErrorCode.REBALANCE_IN_PROGRESS)
        known.session_timeout_ms = message.session_timeout_ms
        known.rebalance_timeout_ms = max(0, rebalance_timeout_ms)
        if self._asks_for_assignment(known, offer.subscriptions):
            known.revision += 1
        known.topics, known.subscriptions, known.size = offer.topics, offer.subscriptions, offer.size
        known.reported, known.given, known.leadership = offer.owned, None, None
        code = self._move(known, now_ms, declares=True)
        if code is not ErrorCode.NONE:
            return _refused_join(message.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        self._wait(known, call, now_ms)
        return None

    def _join_anew(
        self, call: ClientCall, member: HostedMember, replaced: HostedMember | None, now_ms: int
    ) -> JoinGroupResponse | None:
        # Clients of an earlier process may own partitions for as long as their sessions last.
        quarantine_ms = self._started_ms + member.session_timeout_ms
        if self._opens_ms is not None or now_ms < quarantine_ms:
            self._opens_ms = max(self._opens_ms or 0, quarantine_ms)
        if replaced is not None:
            self._abandon_join(replaced, ErrorCode.FENCED_INSTANCE_ID)
            self._send(replaced, now_ms, epoch=STATIC_LEAVE_EPOCH)
            self._drop(replaced)
            member.revision = replaced.revision + self._asks_for_assignment(replaced, member.subscriptions)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._static_members[member.instance_id] = member
        member.reported = {}
        code = self._send(member, now_ms, epoch=0, declares=True)
        if code is not ErrorCode.NONE:
            self._drop(member)
            return _refused_join("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self._wait(member, call, now_ms)
        return None

    def _check_join(
        self, call: ClientCall, message: JoinGroupRequest, former: HostedMember | None, room_left: int
    ) -> ErrorCode | Offer:
        """Return what a JoinGroup brings, or an error."""
        settings = self._settings
        if (
            not settings.session_timeout_min_ms
            <= message.session_timeout_ms
            <= settings.session_timeout_max_ms
        ):
            return ErrorCode.INVALID_SESSION_TIMEOUT
        names = [protocol.name for protocol in message.protocols]
        if (
            message.protocol_type != CONSUMER_PROTOCOL_TYPE
            or not 0 < len(set(names)) == len(names) <= MOST_ASSIGNORS
            or not all(name.strip() for name in names)
        ):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        subscriptions = {protocol.name: bytes(protocol.metadata) for protocol in message.protocols}
        topics: set[str] = set()
        reported: dict[Uuid, tuple[int, ...]] = {}
        try:
            for content in subscriptions.values():
                subscription = embedded.read_subscription(content)
                topics.update(subscription.message.topics)
                for topic_id, numbers in embedded.owned_in(subscription).items():
                    reported[topic_id] = tuple({*reported.get(topic_id, ()), *numbers})
        except CodecError:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        others = [one for one in self.members.values() if one is not former]
        if not set(subscriptions).intersection(*(one.subscriptions for one in others)):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        texts = (call.client_id, message.group_instance_id or "", *names, *subscriptions.values())
        size = sum(map(len, texts)) + len(topics) * settings.bytes_of_a_topic
        grows_by = size if former is None else size - former.size
        if (
            (former is None and len(others) >= settings.most_members)
            or sum(one.size for one in others) + size > settings.most_bytes
            or grows_by > max(0, room_left)
        ):
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return Offer(subscriptions, tuple(sorted(topics)), reported, size)

    def _asks_for_assignment(self, member: HostedMember, subscriptions: Mapping[str, bytes]) -> bool:
        """Whether a JoinGroup asks for a new assignment, as one of the classic protocol does.

        The leader's always does: it may have seen other topics, and a client that were answered as a follower would
        watch them no longer. Another's does if what it declares has changed, unless its client was told to rejoin, or
        has given up what it had to: what its assignor remembers differs after each round. (A changed subscription or
        list of assignors counts in any case.)
        """
        group, own = self._group(), self._own(member)
        if group is not None and group.last_computing_member == member.member_id:
            return group.computation is None
        if member.told_to_rejoin or own is None or own.state is MemberState.UNREVOKED_PARTITIONS:
            return False
        return _declared_in(member.subscriptions) != _declared_in(subscriptions)

    def _wait(self, member: HostedMember, call: ClientCall, now_ms: int) -> None:
        limit_ms = now_ms + min(member.rebalance_timeout_ms, self._settings.longest_join_ms)
        member.join = WaitingJoin(call, limit_ms)
        self.settle(now_ms)

    def settle(self, now_ms: int) -> None:
        """Answer the JoinGroups that need not wait any longer."""
        if self._opens_ms is not None and now_ms < self._opens_ms:
            return
        self._opens_ms = None
        for member in list(self.members.values()):
            if member.join is not None and member.member_id in self.members:
                self._try_answer(member, member.join, now_ms)

    def _only_waits(self, member: HostedMember, join: WaitingJoin, now_ms: int) -> bool:
        """Whether nothing has come yet of what a JoinGroup waits for.

        It is asked for each that waits at every call of the group, and the coordinator's own answer costs much more.
        """
        group, own = self._group(), self._own(member)
        if group is None or own is None or now_ms >= join.limit_ms:
            return False
        if group.computation is not None and group.computation.member_id == member.member_id:
            return False
        if own.state is MemberState.UNREVOKED_PARTITIONS or own.member_epoch < group.assignment_epoch:
            return False
        return group.assignment_epoch < group.group_epoch or group.waits_for_partitions(own)

    def _try_answer(self, member: HostedMember, join: WaitingJoin, now_ms: int) -> None:
        if self._only_waits(member, join, now_ms):
            return
        if self._move(member, now_ms) is not ErrorCode.NONE:
            return
        group, own = self._group(), self._own(member)
        if group is None or own is None:
            raise BrokenInvariant(f"group {self.group_id}: {member.member_id} has moved and is not there")
        computation = group.computation
        if computation is not None and computation.member_id == member.member_id:
            self._answer_leader(member, join.call, own, now_ms)
            return
        waits = group.assignment_epoch < group.group_epoch or own.state is MemberState.UNRELEASED_PARTITIONS
        if waits and own.state is not MemberState.UNREVOKED_PARTITIONS and now_ms < join.limit_ms:
            return
        assignor = computation.assignor if computation else chosen_assignor(group.members.values())
        self._answer_join(
            member, join.call, group.group_epoch, assignor or "", leader="", members=(), now_ms=now_ms
        )

    def _answer_leader(
        self, member: HostedMember, call: ClientCall, own: ConsumerGroupMember, now_ms: int
    ) -> None:
        prepared = self._prepare(member, own, now_ms)
        if prepared.error_code:
            raise BrokenInvariant(f"group {self.group_id}: {prepared.error_message}")
        held_back, self._held_back = self._held_back, None
        owned: dict[str, Partitions] = {}
        for one in prepared.members:
            target = {topic.topic_id: topic.partitions for topic in one.topic_partitions}
            owned[one.member_id] = target if held_back is None else held_back.get(one.member_id, target)
        has_target = any(owned.values())
        generation = max(member.generation, prepared.group_epoch)
        members = []
        for one in prepared.members:
            content = self.members[one.member_id].subscriptions[prepared.assignor_name]
            if has_target:  # else what clients remember of the group before it was hosted is all there is
                content = embedded.for_leader(
                    prepared.assignor_name,
                    embedded.read_subscription(content),
                    embedded.topics_of(owned[one.member_id], self._topic_names),
                    generation,
                )
            members.append(
                JoinGroupResponseMember(
                    member_id=one.member_id, group_instance_id=one.instance_id, metadata=content
                )
            )
        member.leadership = Leadership(
            prepared.group_epoch, prepared.assignor_name, owned, is_second=held_back is not None
        )
        self._answer_join(
            member,
            call,
            prepared.group_epoch,
            prepared.assignor_name,
            leader=member.member_id,
            members=tuple(members),
            now_ms=now_ms,
        )

    def _answer_join(
        self,
        member: HostedMember,
        call: ClientCall,
        group_epoch: int,
        assignor: str,
        *,
        leader: str,
        members: tuple[JoinGroupResponseMember, ...],
        now_ms: int,
    ) -> None:
        member.join, member.told_to_rejoin, member.has_its_id = None, False, True
        member.generation = max(member.generation, group_epoch)
        member.session_deadline_ms = now_ms + member.session_timeout_ms
        self._answer(
            call,
            JoinGroupResponse(
                generation_id=member.generation,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocol_name=assignor,
                leader=leader,
                member_id=member.member_id,
                members=members,
            ),
        )

    def _abandon_join(self, member: HostedMember, code: ErrorCode) -> None:
        if member.join is not None:
            call, member.join = member.join.call, None
            self._answer(call, _refused_join(member.member_id, code))

    # -- SyncGroup ------------------------------------------------------------------------------------------------

    def sync(self, message: SyncGroupRequest, now_ms: int) -> SyncGroupResponse:
        """Serve a SyncGroup."""
        code = self.why_refused(message.member_id, message.group_instance_id, message.generation_id)
        if code is not ErrorCode.NONE:
            return SyncGroupResponse(error_code=code)
        member = self.members[message.member_id]
        member.session_deadline_ms = now_ms + member.session_timeout_ms
        if member.join is not None:
            return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        leadership, member.leadership = member.leadership, None
        if leadership is not None and not self._install(member, leadership, message.assignments, now_ms):
            member.told_to_rejoin = True
            return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        code = self._move(member, now_ms)
        own = self._own(member)
        if code is not ErrorCode.NONE or own is None:
            return SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        member.given = Given(_plain(own.assigned), own.details.metadata)
        member.reported = None
        answer = SyncGroupResponse(
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=message.protocol_name,
            assignment=self._assignment(member.given),
        )
        self.settle(now_ms)
        return answer

    def _assignment(self, given: Given) -> bytes:
        """Return the leader's own bytes if the member has all of its part already, else the part that it has."""
        if not given.assignment:
            return embedded.assignment(given.partitions, self._topic_names, None, 0)
        version, whole = embedded.read_assignment(given.assignment)
        if same_partitions(embedded.partitions_of(whole), given.partitions):
            return given.assignment
        return embedded.assignment(given.partitions, self._topic_names, whole.user_data, version)

    def _install(
        self,
        member: HostedMember,
        leadership: Leadership,
        assignments: Iterable[SyncGroupRequestAssignment],
        now_ms: int,
    ) -> bool:
        """Make what a leader has computed the target; False if it has to compute again."""
        own, group = self._own(member), self._group()
        now = None if group is None else group.computation
        if (
            own is None
            or now is None
            or now.member_id != member.member_id
            or now.prepared is None
            or now.prepared.group_epoch != leadership.group_epoch
        ):
            self.refusals += 1
            return False  # another one was asked since
        contents = {one.member_id: bytes(one.assignment) for one in assignments}
        size = sum(len(member_id) + len(content) for member_id, content in contents.items())
        if size > self._settings.most_bytes:
            self.refusals += 1
            return False
        try:
            decoded = embedded.read_assignments(contents)
        except CodecError:
            self.refusals += 1
            return False
        parts = {one: embedded.partitions_of(assigned) for one, assigned in decoded.items()}
        self._forget_topics()
        for assigned in decoded.values():
            for topic in assigned.assigned_partitions:
                self._topic_names[embedded.topic_id_of(topic.topic)] = topic.topic
        taken = {
            (topic_id, number)
            for part in parts.values()
            for topic_id, numbers in part.items()
            for number in numbers
        }
        told = {
            (topic_id, number)
            for part in leadership.owned.values()
            for topic_id, numbers in part.items()
            for number in numbers
        }
        if told - taken and not leadership.is_second:
            self._held_back = {one: parts.get(one, {}) for one in leadership.owned}
            return False
        epoch = leadership.group_epoch
        image = self._image_of(taken)
        if image is not None:
            is_current = group is not None and group.group_epoch == epoch
            self._coordinator.update_image(image, now_ms)
            if not is_current or self._send(member, now_ms) is not ErrorCode.NONE:
                return False  # its members may be others by now
            own = self._own(member)
            prepared = None if own is None else self._prepare(member, own, now_ms)
            if own is None or prepared is None or prepared.error_code:
                return False
            epoch = prepared.group_epoch
        request = ConsumerGroupInstallAssignmentRequest(
            group_id=self.group_id,
            member_id=member.member_id,
            member_epoch=own.member_epoch,
            group_epoch=epoch,
            members=tuple(
                ConsumerGroupInstallAssignmentRequestMember(
                    member_id=one,
                    partitions=tuple(
                        ConsumerGroupInstallAssignmentRequestTopicPartition(
                            topic_id=topic_id, partitions=numbers
                        )
                        for topic_id, numbers in part.items()
                    ),
                    metadata_version=0,
                    metadata_bytes=contents[one],
                )
                for one, part in parts.items()
            ),
        )
        response: Any = self._ask(request, member, now_ms)
        if response.error_code:
            self.refusals += 1
            return False
        self.installs += 1
        self._computed_size = size
        return True

    def _image_of(self, taken: Iterable[tuple[Uuid, int]]) -> MetadataImage | None:
        """Return the topics as the leader has assigned them; None if that is how they are known already."""
        counts: dict[Uuid, int] = {}
        for topic_id, number in taken:
            counts[topic_id] = max(counts.get(topic_id, 0), number + 1)
        topics = {
            name: TopicImage(topic_id, name, count)
            for topic_id, count in counts.items()
            if (name := self._topic_names.get(topic_id)) is not None
        }
        now = self._coordinator.shard.image
        if topics == dict(now.topics):
            return None
        return MetadataImage(topics.values(), now.version + 1)

    def _forget_topics(self) -> None:
        """Forget the names of topics that nobody has, or is to have."""
        group = self._group()
        used = set(self._coordinator.shard.image.topics)
        if group is not None:
            used.update(
                self._topic_names[topic_id]
                for one in group.members.values()
                for topic_id in (*one.assigned, *one.pending_revocation)
            )
            used.update(
                self._topic_names[topic_id]
                for partitions in group.target_assignment.values()
                for topic_id in partitions
            )
        for name in set(self._topic_names.values()) - used:
            del self._topic_names[embedded.topic_id_of(name)]

    # -- Heartbeat, LeaveGroup, time ------------------------------------------------------------------------------

    def heartbeat(self, message: HeartbeatRequest, now_ms: int) -> HeartbeatResponse:
        """Serve a Heartbeat."""
        code = self.why_refused(message.member_id, message.group_instance_id, message.generation_id)
        if code is not ErrorCode.NONE:
            return HeartbeatResponse(error_code=code)
        member = self.members[message.member_id]
        member.session_deadline_ms = now_ms + member.session_timeout_ms
        code = self._move(member, now_ms)
        if code is ErrorCode.NONE and self._has_to_rejoin(member):
            member.told_to_rejoin = True
            code = ErrorCode.REBALANCE_IN_PROGRESS
        self.settle(now_ms)
        return HeartbeatResponse(error_code=code)

    def renew(self, member_id: str, now_ms: int) -> None:
        """Note that a member's client is alive."""
        member = self.members[member_id]
        member.session_deadline_ms = now_ms + member.session_timeout_ms

    def _has_to_rejoin(self, member: HostedMember) -> bool:
        """Whether the member is to compute the target, or its part differs from what its client was told."""
        group, own = self._group(), self._own(member)
        if group is None or own is None:
            return True
        if group.computation is not None and group.computation.member_id == member.member_id:
            return member.leadership is None
        given = member.given
        if given is None:
            return False
        if not same_partitions(_plain(own.assigned), given.partitions):
            return True
        if given.assignment == own.details.metadata:
            return False
        if embedded.user_data_of(given.assignment) != embedded.user_data_of(own.details.metadata):
            return True
        member.given = Given(given.partitions, own.details.metadata)
        return False

    def leave(self, member_id: str, now_ms: int) -> None:
        """Remove a member: it left, or its session has ended."""
        member = self.members[member_id]
        self._abandon_join(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self._send(member, now_ms, epoch=LEAVE_EPOCH)
        self._drop(member)
        self.settle(now_ms)

    def client_gone(self, connection: object, now_ms: int) -> None:
        """Forget the JoinGroups that wait on a connection that has ended. Who never got its member id leaves."""
        for member in list(self.members.values()):
            if member.join is not None and member.join.call.connection == connection:
                member.join = None
                member.session_deadline_ms = now_ms + member.session_timeout_ms
                if not member.has_its_id:
                    self.leave(member.member_id, now_ms)

    def advance(self, now_ms: int) -> None:
        """Do what is due: sessions that have ended, members that took too long, JoinGroups that waited enough."""
        self._coordinator.advance(now_ms)
        self._drop_fenced()
        for member in list(self.members.values()):
            if (
                member.join is None
                and member.session_deadline_ms <= now_ms
                and member.member_id in self.members
            ):
                self.leave(member.member_id, now_ms)
        self.settle(now_ms)

    # -- the coordinator ------------------------------------------------------------------------------------------

    def _group(self) -> ConsumerGroup | None:
        group = self._coordinator.shard.groups.get(self.group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _own(self, member: HostedMember) -> ConsumerGroupMember | None:
        group = self._group()
        return None if group is None else group.members.get(member.member_id)

    def _move(self, member: HostedMember, now_ms: int, *, declares: bool = False) -> ErrorCode:
        """Let a member take the steps towards its target that it can take now; one that is fenced is dropped."""
        for _ in range(_MOST_STEPS):
            before = self._own(member)
            code = self._send(member, now_ms, declares=declares)
            if code is not ErrorCode.NONE:
                break
            if self._own(member) == before:
                return ErrorCode.NONE
            declares = False
        else:
            return ErrorCode.NONE
        if code in _GONE:
            self._drop_fenced()
            return ErrorCode.UNKNOWN_MEMBER_ID
        return code

    def _send(
        self, member: HostedMember, now_ms: int, *, epoch: int | None = None, declares: bool = False
    ) -> ErrorCode:
        """Send a member's heartbeat; at its present epoch if none is given."""
        own = self._own(member)
        if epoch is None:
            if own is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            epoch = own.member_epoch
        reported = None if member.reported is None or epoch < 0 else member.reported
        request = ClientAssignorsHeartbeatRequest(
            group_id=self.group_id,
            member_id=member.member_id,
            member_epoch=epoch,
            instance_id=member.instance_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms if declares else -1,
            subscribed_topic_names=member.topics if declares else None,
            topic_partitions=None
            if reported is None
            else tuple(
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in reported.items()
            ),
            client_assignors=tuple(
                HeartbeatClientAssignor(
                    name=name,
                    minimum_version=0,
                    maximum_version=0,
                    metadata_version=0,
                    metadata_bytes=member.revision.to_bytes(8, "big"),
                )
                for name in member.subscriptions
            )
            if declares
            else None,
        )
        response: Any = self._ask(request, member, now_ms)
        return ErrorCode(response.error_code)

    def _prepare(
        self, member: HostedMember, own: ConsumerGroupMember, now_ms: int
    ) -> ConsumerGroupPrepareAssignmentResponse:
        request = ConsumerGroupPrepareAssignmentRequest(
            group_id=self.group_id, member_id=member.member_id, member_epoch=own.member_epoch
        )
        response: ConsumerGroupPrepareAssignmentResponse = self._ask(request, member, now_ms)  # type: ignore[assignment]
        return response

    def _ask(self, request: Message, member: HostedMember, now_ms: int) -> Message:
        call = Call(0, _CALL_VERSION, client_id=member.client_id, client_host=member.client_host)
        (reply,) = self._coordinator.handle(request, call, now_ms)
        return reply.response

    def _drop_fenced(self) -> None:
        """Drop the members that the coordinator has removed by itself: they took too long to give up partitions."""
        group = self._group()
        there = set() if group is None else set(group.members)
        for member_id in self.members.keys() - there:
            member = self.members[member_id]
            self._abandon_join(member, ErrorCode.UNKNOWN_MEMBER_ID)
            self._drop(member)

    def _drop(self, member: HostedMember) -> None:
        self.members.pop(member.member_id, None)
        if member.instance_id is not None and self._static_members.get(member.instance_id) is member:
            del self._static_members[member.instance_id]


def _declared_in(subscriptions: Mapping[str, bytes]) -> list[tuple[str, tuple[str, ...], bytes | None]]:
    """Return what a client declares, without what it says that it owns."""
    declared = []
    for name, content in subscriptions.items():
        message = embedded.read_subscription(content).message
        user_data = None if name in {embedded.STICKY, embedded.COOPERATIVE_STICKY} else message.user_data
        declared.append((name, tuple(sorted(message.topics)), user_data))
    return declared


def _all_of(parts: Mapping[str, Partitions]) -> set[tuple[Uuid, int]]:
    return {
        (topic_id, number)
        for part in parts.values()
        for topic_id, numbers in part.items()
        for number in numbers
    }


def _plain(partitions: EpochedPartitions) -> Partitions:
    return {topic_id: tuple(numbers) for topic_id, numbers in partitions.items()}


def _refused_join(member_id: str, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id)
