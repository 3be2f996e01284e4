"""The round of a leader: what it is told about the group, and what it has computed as the group's target."""

from collections.abc import Iterable, Mapping

from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.errors import BrokenInvariant
from coordinator.partitions import Partitions
from hosting.groups.consumers import formats
from hosting.groups.consumers.client import ConsumerClient, Leadership
from hosting.groups.consumers.coordination import Coordination
from hosting.groups.consumers.topics import GroupTopics, all_of
from hosting.groups.member import HostedMember, JoinResult
from protocol_codecs.all_messages import JoinGroupResponseMember, SyncGroupRequestAssignment
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.errors import CodecError
from protocol_codecs.messages.consumer_protocol import ConsumerProtocolAssignment
from protocol_codecs.uuids import Uuid


class Computing:
    """The computations of one group by its leaders."""

    def __init__(self, coordination: Coordination, topics: GroupTopics, most_bytes: int) -> None:
        self.installs = 0
        """How many assignments of clients became the target, and how many were refused."""
        self.refusals = 0
        self.size = 0
        """The bytes of the assignments that are the target."""
        self._coordination = coordination
        self._topics = topics
        self._most_bytes = most_bytes
        self._held_back: dict[str, Partitions] | None = None
        """What a cooperative assignor left to each member, while the rest waits for its second round."""

    def begin(
        self,
        member: HostedMember,
        client: ConsumerClient,
        own: ConsumerGroupMember,
        members: Mapping[str, HostedMember],
        now_ms: int,
    ) -> JoinResult:
        """Return the answer to the leader's JoinGroup: all members, with what each is to have by the target."""
        prepared = self._coordination.prepare(member, own, now_ms)
        if prepared.error_code:
            raise BrokenInvariant(f"group {self._coordination.group_id}: {prepared.error_message}")
        held_back, self._held_back = self._held_back, None
        owned: dict[str, Partitions] = {}
        for one in prepared.members:
            target = {topic.topic_id: topic.partitions for topic in one.topic_partitions}
            owned[one.member_id] = target if held_back is None else held_back.get(one.member_id, target)
        has_target = any(owned.values())
        generation = max(member.generation, prepared.group_epoch)
        told = []
        for one in prepared.members:
            content = members[one.member_id].subscriptions[prepared.assignor_name]
            # Without a target, what clients remember of the group before it was hosted is all there is.
            if has_target:
                content = formats.for_leader(
                    prepared.assignor_name,
                    formats.read_subscription(content),
                    formats.topics_of(owned[one.member_id], self._topics.names),
                    generation,
                )
            told.append(
                JoinGroupResponseMember(
                    member_id=one.member_id, group_instance_id=one.instance_id, metadata=content
                )
            )
        client.leadership = Leadership(
            prepared.group_epoch, prepared.assignor_name, owned, is_second=held_back is not None
        )
        return JoinResult(
            prepared.group_epoch, prepared.assignor_name, leader=member.member_id, members=tuple(told)
        )

    def install(
        self,
        member: HostedMember,
        client: ConsumerClient,
        leadership: Leadership,
        assignments: Iterable[SyncGroupRequestAssignment],
        now_ms: int,
    ) -> bool:
        """Make what a leader has computed the target; False if it has to compute again."""
        contents = {one.member_id: bytes(one.assignment) for one in assignments}
        decoded = self._read(contents) if self._is_asked(member, leadership) else None
        if decoded is None:
            self.refusals += 1
            return False
        parts = {one: formats.partitions_of(assigned) for one, assigned in decoded.items()}
        self._topics.forget_unused(self._coordination.image, self._coordination.group)
        self._topics.learn(decoded.values())
        taken = set(all_of(parts))
        if set(all_of(leadership.owned)) - taken and not leadership.is_second:
            self._held_back = {one: parts.get(one, {}) for one in leadership.owned}
            return False
        epoch = self._epoch_with_topics(member, client, leadership.group_epoch, taken, now_ms)
        own = self._coordination.own(member)
        if epoch is None or own is None:
            return False
        if not self._coordination.install(member, own, epoch, parts, contents, now_ms):
            self.refusals += 1
            return False
        self.installs += 1
        self.size = _size(contents)
        return True

    def _is_asked(self, member: HostedMember, leadership: Leadership) -> bool:
        """Whether the coordinator still waits for this member to compute the target of this epoch."""
        group = self._coordination.group
        now = None if group is None else group.computation
        return (
            self._coordination.own(member) is not None
            and now is not None
            and now.member_id == member.member_id
            and now.prepared is not None
            and now.prepared.group_epoch == leadership.group_epoch
        )

    def _read(self, contents: Mapping[str, bytes]) -> dict[str, ConsumerProtocolAssignment] | None:
        if _size(contents) > self._most_bytes:
            return None
        try:
            return formats.read_assignments(contents)
        except CodecError:
            return None

    def _epoch_with_topics(
        self,
        member: HostedMember,
        client: ConsumerClient,
        epoch: int,
        taken: Iterable[tuple[Uuid, int]],
        now_ms: int,
    ) -> int | None:
        """Return the group epoch to install at, when the topics are those that the leader has assigned.

        None if its members may be others by now.
        """
        coordination = self._coordination
        image = self._topics.image_of(taken, coordination.image)
        if image is None:
            return epoch
        group = coordination.group
        is_current = group is not None and group.group_epoch == epoch
        coordination.update_image(image, now_ms)
        if not is_current or coordination.heartbeat(member, client, now_ms) is not ErrorCode.NONE:
            return None
        own = coordination.own(member)
        prepared = None if own is None else coordination.prepare(member, own, now_ms)
        return None if prepared is None or prepared.error_code else prepared.group_epoch


def _size(contents: Mapping[str, bytes]) -> int:
    return sum(len(member_id) + len(content) for member_id, content in contents.items())
