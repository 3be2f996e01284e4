"""The rules of protocol type ``consumer``: see :class:`hosting.groups.rules.ProtocolRules`."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from coordinator.consumer_groups.client_side.choice import chosen_assignor
from coordinator.consumer_groups.group import CONSUMER_PROTOCOL_TYPE
from coordinator.consumer_groups.member import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupMember,
    MemberState,
)
from coordinator.errors import BrokenInvariant
from coordinator.partitions import EpochedPartitions, Partitions, same_partitions
from coordinator.uuids import UuidSource
from hosting.groups.consumers import formats
from hosting.groups.consumers.client import ConsumerClient, ConsumerOffer, Given
from hosting.groups.consumers.computing import Computing
from hosting.groups.consumers.coordination import Coordination
from hosting.groups.consumers.topics import GroupTopics
from hosting.groups.member import HostedMember, JoinResult
from hosting.groups.settings import HostedSettings
from protocol_codecs.all_messages import JoinGroupRequest, SyncGroupRequestAssignment
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.errors import CodecError
from protocol_codecs.uuids import Uuid

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


class ConsumerRules:
    """One group of consumers."""

    protocol_type = CONSUMER_PROTOCOL_TYPE
    goes_on_without_membership = False

    def __init__(self, group_id: str, settings: HostedSettings, uuids: UuidSource) -> None:
        self.coordination = Coordination(group_id, uuids)
        self.topics = GroupTopics()
        self.computing = Computing(self.coordination, self.topics, settings.most_bytes)
        self._settings = settings
        self._clients: dict[str, ConsumerClient] = {}

    @property
    def kept_bytes(self) -> int:
        """See :class:`hosting.groups.rules.ProtocolRules`; so the others."""
        given = sum(len(one.given.assignment) for one in self._clients.values() if one.given is not None)
        return given + self.computing.size

    def read_join(self, message: JoinGroupRequest) -> ConsumerOffer | None:
        """Return what a JoinGroup brings; None if it can't be read."""
        subscriptions = {protocol.name: bytes(protocol.metadata) for protocol in message.protocols}
        topics: set[str] = set()
        owned: dict[Uuid, tuple[int, ...]] = {}
        try:
            for content in subscriptions.values():
                subscription = formats.read_subscription(content)
                topics.update(subscription.message.topics)
                for topic_id, numbers in formats.owned_in(subscription).items():
                    owned[topic_id] = tuple({*owned.get(topic_id, ()), *numbers})
        except CodecError:
            return None
        size = sum(map(len, subscriptions.values())) + len(topics) * self._settings.bytes_of_a_topic
        return ConsumerOffer(subscriptions, size, tuple(sorted(topics)), owned)

    def next_deadline_ms(self) -> int | None:
        """Return when :meth:`advance` has something to do; None if never."""
        return self.coordination.next_deadline_ms()

    def advance(self, now_ms: int) -> None:
        """Do what is due."""
        self.coordination.advance(now_ms)

    def assigned_to(self, member: HostedMember) -> Mapping[str, tuple[int, ...]]:
        """Return what a member may own now, by topic name."""
        own = self.coordination.own(member)
        partitions = {} if own is None else _plain(own.assigned)
        return {self.topics.names[topic_id]: numbers for topic_id, numbers in partitions.items()}

    # -- membership -----------------------------------------------------------------------------------------------

    def join(
        self, member: HostedMember, offer: ConsumerOffer, replaced: HostedMember | None, now_ms: int
    ) -> ErrorCode:
        """Let a new member in."""
        client = ConsumerClient(topics=offer.topics, reported={})
        if replaced is not None:
            former = self._clients.pop(replaced.member_id)
            client.revision = former.revision + self._asks_for_assignment(replaced, offer)
        self._clients[member.member_id] = client
        return self.coordination.heartbeat(member, client, now_ms, epoch=0, declares=True)

    def rejoin(self, member: HostedMember, offer: ConsumerOffer) -> None:
        """Note what a member's new JoinGroup brings."""
        client = self._clients[member.member_id]
        if self._asks_for_assignment(member, offer):
            client.revision += 1
        client.topics = offer.topics
        client.reported, client.given, client.leadership = offer.owned, None, None

    def _asks_for_assignment(self, member: HostedMember, offer: ConsumerOffer) -> bool:
        """Whether a JoinGroup asks for a new assignment, as one of the classic protocol does.

        The leader's always does: it may have seen other topics, and a client that were answered as a follower would
        watch them no longer. Another's does if what it declares has changed, unless its client was told to rejoin, or
        has given up what it had to: what its assignor remembers differs after each round. (A changed subscription or
        list of assignors counts in any case.)
        """
        group, own = self.coordination.group, self.coordination.own(member)
        if group is not None and group.last_computing_member == member.member_id:
            return group.computation is None
        if member.told_to_rejoin or own is None or own.state is MemberState.UNREVOKED_PARTITIONS:
            return False
        return _declared_in(member.subscriptions) != _declared_in(offer.subscriptions)

    def leave(self, member: HostedMember, now_ms: int, *, is_replaced: bool = False) -> None:
        """End a membership."""
        epoch = STATIC_LEAVE_EPOCH if is_replaced else LEAVE_EPOCH
        self.coordination.heartbeat(member, self._clients[member.member_id], now_ms, epoch=epoch)

    def keep_for_a_session(self, member: HostedMember, now_ms: int) -> None:
        """A consumer without a member id owns nothing."""

    def forget(self, member: HostedMember) -> None:
        """Forget a client that is no member any more."""
        self._clients.pop(member.member_id, None)

    def present(self) -> AbstractSet[str]:
        """Return the members that the embedded coordinator has."""
        group = self.coordination.group
        return set() if group is None else group.members.keys()

    # -- towards the target ---------------------------------------------------------------------------------------

    def move(self, member: HostedMember, now_ms: int, *, declares: bool = False) -> ErrorCode:
        """Let a member take the steps towards its target that it can take now."""
        client = self._clients[member.member_id]
        for _ in range(_MOST_STEPS):
            before = self.coordination.own(member)
            code = self.coordination.heartbeat(member, client, now_ms, declares=declares)
            if code is not ErrorCode.NONE:
                return ErrorCode.UNKNOWN_MEMBER_ID if code in _GONE else code
            if self.coordination.own(member) == before:
                break
            declares = False
        return ErrorCode.NONE

    def has_nothing_new(self, member: HostedMember) -> bool:
        """Whether nothing has come yet of what a JoinGroup waits for. The coordinator's own answer costs much more."""
        group, own = self.coordination.group, self.coordination.own(member)
        if group is None or own is None:
            return False
        if group.computation is not None and group.computation.member_id == member.member_id:
            return False
        if own.state is MemberState.UNREVOKED_PARTITIONS or own.member_epoch < group.assignment_epoch:
            return False
        return group.assignment_epoch < group.group_epoch or group.waits_for_partitions(own)

    def has_to_wait(self, member: HostedMember) -> bool:
        """Whether a JoinGroup waits for the target, or for partitions that others have not given up yet."""
        group, own = self.coordination.group, self.coordination.own(member)
        if group is None or own is None or self._computes(member):
            return False
        waits = group.assignment_epoch < group.group_epoch or own.state is MemberState.UNRELEASED_PARTITIONS
        return waits and own.state is not MemberState.UNREVOKED_PARTITIONS

    def _computes(self, member: HostedMember) -> bool:
        group = self.coordination.group
        computation = None if group is None else group.computation
        return computation is not None and computation.member_id == member.member_id

    def join_result(self, member: HostedMember, members: dict[str, HostedMember], now_ms: int) -> JoinResult:
        """Return the answer to a JoinGroup."""
        group, own = self.coordination.group, self.coordination.own(member)
        if group is None or own is None:
            raise BrokenInvariant(
                f"group {self.coordination.group_id}: {member.member_id} has moved and is not there"
            )
        if self._computes(member):
            return self.computing.begin(member, self._clients[member.member_id], own, members, now_ms)
        computation = group.computation
        assignor = computation.assignor if computation else chosen_assignor(group.members.values())
        return JoinResult(group.group_epoch, assignor or "")

    def take_assignments(
        self, member: HostedMember, assignments: Iterable[SyncGroupRequestAssignment], now_ms: int
    ) -> bool:
        """Take what a leader's SyncGroup has brought; False if it has to compute again."""
        client = self._clients[member.member_id]
        leadership, client.leadership = client.leadership, None
        return leadership is None or self.computing.install(member, client, leadership, assignments, now_ms)

    def hand_out(self, member: HostedMember) -> bytes | None:
        """Return the leader's own bytes if the member has all of its part already, else the part that it has."""
        client, own = self._clients[member.member_id], self.coordination.own(member)
        if own is None:
            return None
        client.given = given = Given(_plain(own.assigned), own.details.metadata)
        client.reported = None
        if not given.assignment:
            return formats.assignment(given.partitions, self.topics.names, None, 0)
        version, whole = formats.read_assignment(given.assignment)
        if same_partitions(formats.partitions_of(whole), given.partitions):
            return given.assignment
        return formats.assignment(given.partitions, self.topics.names, whole.user_data, version)

    def has_to_rejoin(self, member: HostedMember) -> bool:
        """Whether the member is to compute the target, or its part differs from what its client was told."""
        client, own = self._clients[member.member_id], self.coordination.own(member)
        if own is None:
            return True
        if self._computes(member):
            return client.leadership is None
        return client.given is not None and self._differs(client, client.given, own)

    def _differs(self, client: ConsumerClient, given: Given, own: ConsumerGroupMember) -> bool:
        if not same_partitions(_plain(own.assigned), given.partitions):
            return True
        if given.assignment == own.details.metadata:
            return False
        if formats.user_data_of(given.assignment) != formats.user_data_of(own.details.metadata):
            return True
        client.given = Given(given.partitions, own.details.metadata)
        return False


def _declared_in(subscriptions: Mapping[str, bytes]) -> list[tuple[str, tuple[str, ...], bytes | None]]:
    """Return what a client declares, without what it says that it owns."""
    declared = []
    for name, content in subscriptions.items():
        message = formats.read_subscription(content).message
        user_data = None if name in {formats.STICKY, formats.COOPERATIVE_STICKY} else message.user_data
        declared.append((name, tuple(sorted(message.topics)), user_data))
    return declared


def _plain(partitions: EpochedPartitions) -> Partitions:
    return {topic_id: tuple(numbers) for topic_id, numbers in partitions.items()}
