"""The helper member of a conversion (``helper-epochgate-…``): when it joins, converts a live classic group, and
leaves.

The broker gives each classic member its generation as member epoch and its assignment as owned partitions when it
converts a group (``ConsumerGroup.fromClassicGroup``), and keeps the generation as group epoch: nothing moves. Whatever
the classic group had not finished stays as it is (a member that has just left, partitions that were added), until the
group epoch moves. That happens when the helper leaves; at once, if a description shows that partitions have no owner
(:func:`has_every_partition`).

On the way back the helper keeps the group a consumer group while its members become classic ones. When it leaves as the
last member of the new protocol, the broker makes the group a classic one, with the group epoch as its generation, and
has all members rejoin once (``GroupMetadataManager.consumerGroupFenceMembers``). A member that has not reached the
group epoch would be answered ILLEGAL_GENERATION then, so the helper waits for it. If all members are classic and no
helper is in the group, because the process that served the last one of the new protocol has ended, another one joins
and leaves. It does so once: a broker whose migration policy has no downgrade leaves the group a consumer group.
"""

from collections.abc import Iterator
from itertools import chain

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
)
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from translation.actions import Call, Connection, ConnectionId, Request
from translation.conversion.last_consumer_member import CLASSIC, TELLS_TYPES
from translation.conversion.votes import choose_votes
from translation.engine.context import Context
from translation.members.conversion import HELPER_CLIENT_ID, HELPER_PREFIX, Conversion, is_helper
from translation.members.environment import Environment
from translation.members.member import Group
from translation.members.procedure import Procedure, UpstreamLost
from translation.policy.policy import Mode
from translation.upstream.assignor_vote import NO_VOTE
from translation.upstream.consumer_group_heartbeat import to_send
from translation.upstream.metadata_lookup import lookup_sizes

_REBALANCE_TIMEOUT_MS = 60_000
"""The helper owns nothing, so it never has anything to give up."""

_INTERVAL_S = 5.0
"""Until the broker says how often it expects heartbeats."""
_SOON_S = 1.0
"""How often the group is described while its members are being converted or go back."""
_SETTLED_S = 15.0
"""So long after the last change the group is described every :data:`_DESCRIBE_S` only: its step is held, or waits."""
_DESCRIBE_S = 30.0
_LONGEST_RETURN_S = 60.0
"""So long after the last member went back the helper leaves even if native members stay."""

_LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})

DescribedGroup = ConsumerGroupDescribeResponseDescribedGroup


class Helpers:
    """Begins and ends the conversions of groups, and has a helper join and leave for each."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._registry = context.registry
        self._memberships = context.memberships
        self._rules = context.rules
        self._scheduler = context.scheduler
        self._connections = context.connections
        self._authorized_groups = context.authorized_groups
        self._ids = context.ids
        self._reach = context.reach

    def begin(self, group: Group, connection: Connection) -> Conversion:
        """Begin the conversion of a group that has none here; its helper is still to join."""
        conversion = Conversion(group, connection.id, self._environment.now, self._on_time)
        group.conversion = conversion
        self._environment.timers.book(conversion, self._environment.now + _SOON_S)
        return conversion

    def begin_return(self, group: Group, connection: Connection) -> Conversion:
        """Begin or go on with the way back of a group, of which a member has become a classic one."""
        conversion = group.conversion
        if conversion is None:
            conversion = self.begin(group, connection)
            conversion.is_return = True
        conversion.connection_id, conversion.changed_at = connection.id, self._environment.now
        return conversion

    def has_joined_classic(self, request: Request, response: JoinGroupResponse) -> None:
        """A JoinGroup was relayed and answered, in a consumer group if there is no leader: the member may be the last
        one there that was of the new protocol, served by a process that has ended."""
        message: JoinGroupRequest = request.message
        if (
            response.error_code == ErrorCode.NONE
            and message.protocol_type == "consumer"
            and not response.leader
        ):
            self.bring_back(request.connection, message.group_id)

    def bring_back(self, connection: Connection, group_id: str) -> None:
        """A classic member is in a consumer group: it is on its way back, unless its group is translated."""
        if self._rules.rule_for(group_id).mode is Mode.OBSERVE:
            self.begin_return(self._registry.group(group_id), connection)

    def join(self, conversion: Conversion) -> Procedure[ConsumerGroupHeartbeatResponse]:
        """Have a helper join the group, on the connection of the procedure; it converts a classic group.

        If it replaces an earlier one, that leaves afterwards (:meth:`move_group_epoch`).
        """
        helper_id = self._ids.unlike_ours(HELPER_PREFIX)
        conversion.is_joining = True
        try:
            response: ConsumerGroupHeartbeatResponse = yield to_send(
                ConsumerGroupHeartbeatRequest(
                    group_id=conversion.group.group_id,
                    member_id=helper_id,
                    member_epoch=0,
                    rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
                    subscribed_topic_names=(),
                    topic_partitions=(),
                )
            )
        finally:
            conversion.is_joining = False
        if response.error_code == ErrorCode.NONE:
            conversion.helper_id, conversion.helper_epoch = helper_id, response.member_epoch
            conversion.has_left = False
            interval_s = response.heartbeat_interval_ms / 1000 or _INTERVAL_S
            self._environment.timers.book(conversion, self._environment.now + min(interval_s, _SOON_S))
        return response

    def leave(self, conversion: Conversion) -> Procedure[None]:
        """Have the helper leave. The group epoch moves once; as the last member of the new protocol it leaves a classic
        group that rebalances."""
        helper_id, conversion.helper_id = conversion.helper_id, ""
        if not helper_id:
            return
        with conversion.group.departing(helper_id):
            yield from _leave(conversion.group.group_id, helper_id)
        self._memberships.heartbeat_group(conversion.group)

    def end(self, group: Group) -> None:
        """Forget the conversion of a group: it is over, or its helper is lost."""
        group.conversion = None
        self._registry.drop_group_if_empty(group)

    def move_group_epoch(self, conversion: Conversion) -> Procedure[None]:
        """Have the broker compute the group's assignment anew: another helper joins, and the present one leaves."""
        before = conversion.helper_id
        response = yield from self.join(conversion)
        if response.error_code == ErrorCode.NONE:
            yield from _leave(conversion.group.group_id, before)

    # -- as time passes --------------------------------------------------------------------------------------

    def _on_time(self, conversion: Conversion) -> None:
        group = conversion.group
        if group.conversion is not conversion:
            return
        connection = self._connection(conversion)
        if connection is None:
            if self._environment.now - conversion.reached_at < self._environment.settings.broker_session_s:
                # kafka-go, say, ends its connection before each JoinGroup
                self._environment.timers.book(conversion, self._environment.now + _SOON_S)
            else:  # the broker has ended the helper
                self.end(group)
            return
        conversion.reached_at = self._environment.now
        self._environment.timers.book(conversion, self._environment.now + _INTERVAL_S)
        if conversion.queue.running_on != connection.id:
            # Its client may have stopped reading, or waits there in JoinGroup.
            self._scheduler.abandon(conversion.queue)
        if conversion.queue.idle:
            conversion.connection_id = connection.id
            self._scheduler.start(
                self._tick(conversion, connection), conversion.queue, connection.id, HELPER_CLIENT_ID
            )

    def _connection(self, conversion: Conversion) -> Connection | None:
        """A connection for the helper; that on which a request of it has no response yet only if there is no other."""
        waits_on = conversion.queue.running_on
        for candidate in chain((one for one in self._candidates(conversion) if one != waits_on), (waits_on,)):
            connection = None if candidate is None else self._connections.connection(candidate)
            if connection is not None:
                return connection
        return None

    def _candidates(self, conversion: Conversion) -> Iterator[ConnectionId | None]:
        """The connection of its last heartbeat, one of a member of its group, and all others on which the broker has
        accepted a call for the group, as those of clients that are relayed."""
        group = conversion.group
        yield conversion.connection_id
        yield self._reach.connection_of(group, conversion.queue.running_on)
        yield from self._authorized_groups.connections(group.group_id)

    def _tick(self, conversion: Conversion, connection: Connection) -> Procedure[None]:
        interval_s = _INTERVAL_S
        try:
            if conversion.helper_id:
                interval_s = yield from _heartbeat(conversion)
            is_busy = self._environment.now - conversion.changed_at < _SETTLED_S
            if is_busy or self._environment.now - conversion.described_at >= _DESCRIBE_S:
                conversion.described_at = self._environment.now
                group = yield from describe(connection, conversion.group.group_id)
                if (yield from self._is_over(conversion, group)):
                    if conversion.group.conversion is conversion:
                        self.end(conversion.group)
                    return
                interval_s = min(interval_s, _SOON_S) if is_busy else interval_s
        except UpstreamLost:
            interval_s = _SOON_S  # on another connection
        self._environment.timers.book(conversion, self._environment.now + interval_s)

    def _is_over(self, conversion: Conversion, described: DescribedGroup | None) -> Procedure[bool]:
        """Whether the conversion, or the way back, is over; the helper has left then."""
        group = conversion.group
        if conversion.stands_in and described is not None:
            conversion.stands_in = _has_classic_members_only(described)
        if self._rules.rule_for(group.group_id).mode is Mode.TRANSLATE and not conversion.stands_in:
            is_over = yield from self._is_converted(conversion, described)
        else:
            if _lacks_helper(conversion, described):
                yield from self.join(conversion)
                return False
            if (yield from _ends_orphans(self._environment, conversion, described)):
                return False
            is_over = self._is_back(conversion, described)
            if is_over and conversion.helper_id:
                yield from self.leave(conversion)
                conversion.has_left, conversion.changed_at = True, self._environment.now
                return False  # but when the group is a classic one
        if is_over:
            yield from self.leave(conversion)
        return is_over

    def _is_converted(self, conversion: Conversion, described: DescribedGroup | None) -> Procedure[bool]:
        """Whether no classic member is left, and all members that are served here have voted for their assignor."""
        if described is None:
            no_classic_left = self._environment.now - conversion.changed_at >= _SETTLED_S
        else:
            no_classic_left = all(member.member_type != CLASSIC for member in described.members)
        if no_classic_left and not conversion.votes:
            if described is not None:
                yield from choose_votes(self._rules, conversion, described)
            conversion.votes = True
            self._memberships.heartbeat_group(conversion.group)
            return False
        return no_classic_left and all(
            member.broker.assignor != NO_VOTE for member in conversion.group.members.values() if member.joined
        )

    def _is_back(self, conversion: Conversion, described: DescribedGroup | None) -> bool:
        """Whether the helper of this process may leave: all members have gone back and reached the group epoch.

        Each helper that leaves moves that, so of those of several processes one is the last, and waits once more.
        """
        is_late = self._environment.now - conversion.changed_at >= _LONGEST_RETURN_S
        if described is None:
            conversion.stays = bool(conversion.helper_id)
            return not conversion.helper_id or is_late
        conversion.stays = any(
            member.member_type != CLASSIC
            and not is_helper(member.member_id)
            and not self._registry.is_ours(described.group_id, member.member_id)
            for member in described.members
        )
        helpers = {member.member_id for member in described.members if is_helper(member.member_id)}
        others = [member for member in described.members if not is_helper(member.member_id)]
        if not _has_classic_members_only(described):
            return is_late
        if conversion.has_left:
            return False  # or another helper would join, as if none had left
        if is_late:
            return True
        if conversion.helper_id and helpers - {conversion.helper_id}:
            return conversion.helper_id != min(helpers)
        return all(member.member_epoch == described.group_epoch for member in others)


def _leave(group_id: str, helper_id: str) -> Procedure[None]:
    yield to_send(ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=helper_id, member_epoch=-1))


def describe(connection: Connection, group_id: str) -> Procedure[DescribedGroup | None]:
    """How the broker describes a consumer group with the types of its members; None if it does not."""
    version = connection.version(ApiKey.CONSUMER_GROUP_DESCRIBE, newest=TELLS_TYPES)
    if version != TELLS_TYPES:
        return None
    response: ConsumerGroupDescribeResponse = yield Call(
        ApiKey.CONSUMER_GROUP_DESCRIBE, version, ConsumerGroupDescribeRequest(group_ids=(group_id,))
    )
    described = response.groups[0] if response.groups else None
    return described if described is not None and described.error_code == ErrorCode.NONE else None


def has_every_partition(group: DescribedGroup) -> Procedure[bool]:
    """Whether each partition of all topics that a group's members subscribe to is in the target of one of them, and no
    member has nothing while another has two."""
    members = [member for member in group.members if not is_helper(member.member_id)]
    targets = [
        {
            (topic.topic_name, index)
            for topic in member.target_assignment.topic_partitions
            for index in topic.partitions
        }
        for member in members
    ]
    topics = frozenset(topic for member in members for topic in member.subscribed_topic_names)
    sizes = yield from lookup_sizes(topics)
    wanted = {(topic, index) for topic, size in sizes.items() for index in range(size)}
    same_topics = len({frozenset(member.subscribed_topic_names) for member in members}) == 1
    counts = [len(target) for target in targets]
    is_lopsided = same_topics and min(counts) == 0 and max(counts) > 1
    return topics <= sizes.keys() and wanted <= set[tuple[str, int]]().union(*targets) and not is_lopsided


def _heartbeat(conversion: Conversion) -> Procedure[float]:
    """Send the helper's heartbeat; return in how many seconds the next one is due."""
    response: ConsumerGroupHeartbeatResponse = yield to_send(
        ConsumerGroupHeartbeatRequest(
            group_id=conversion.group.group_id,
            member_id=conversion.helper_id,
            member_epoch=conversion.helper_epoch,
        )
    )
    if response.error_code == ErrorCode.NONE:
        conversion.helper_epoch = response.member_epoch
    elif response.error_code in _LOST:
        conversion.helper_id = ""
    return response.heartbeat_interval_ms / 1000 or _INTERVAL_S


def _lacks_helper(conversion: Conversion, described: DescribedGroup | None) -> bool:
    """Whether a consumer group has classic members only, and no helper has left it."""
    return (
        described is not None
        and not (conversion.helper_id or conversion.is_joining or conversion.has_left)
        and bool(described.members)
        and all(member.member_type == CLASSIC for member in described.members)
    )


def _ends_orphans(
    environment: Environment, conversion: Conversion, described: DescribedGroup | None
) -> Procedure[bool]:
    """End the helpers that this process left behind when it crashed; return whether there were any.

    One that times out as the last member of the new protocol leaves a classic group while members may be behind the
    group epoch, and those are answered ILLEGAL_GENERATION. Of several processes the helper may be another one's.
    """
    if not environment.settings.sole_process or described is None or conversion.is_joining:
        return False
    orphans = [
        member
        for member in described.members
        if is_helper(member.member_id) and member.member_id != conversion.helper_id
    ]
    if orphans and not conversion.helper_id:
        last = orphans.pop()  # it stays until all members have reached the group epoch
        conversion.helper_id, conversion.helper_epoch = last.member_id, last.member_epoch
        conversion.has_left = False
    for orphan in orphans:
        yield from _leave(described.group_id, orphan.member_id)
    return bool(orphans)


def _has_classic_members_only(described: DescribedGroup) -> bool:
    """Whether a consumer group has no members of the new protocol but helpers."""
    return all(member.member_type == CLASSIC or is_helper(member.member_id) for member in described.members)
