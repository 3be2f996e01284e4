"""The records of groups and members that one process keeps, and when it forgets them."""

from collections.abc import Callable
from itertools import islice

from translation.engine.connections import ClientConnections
from translation.engine.member_log_view import MemberLogView
from translation.member_log.records import LENGTH_OF_HASH, MemberKey, shortened
from translation.members.environment import Environment
from translation.members.member import Group, Member
from translation.members.member_ids import LONGEST_MEMBER_ID, MemberIds, NativeMembers, may_be_translated

_EVICTION_CANDIDATES = 100
"""Groups that are looked at when one has to be forgotten, those first that were not looked at for longest."""


class Registry:
    """Finds groups and members by id. A record is made when something has to be remembered, and dropped afterwards.

    ``on_member_time`` and ``on_group_time`` are called when a booked deadline of a member or a group is due.
    """

    def __init__(
        self,
        environment: Environment,
        connections: ClientConnections,
        ids: MemberIds,
        natives: NativeMembers,
        member_log: MemberLogView,
        *,
        on_member_time: Callable[[Member, float], None],
        on_group_time: Callable[[Group, float], None],
    ) -> None:
        self._environment = environment
        self._connections = connections
        self._ids = ids
        self._natives = natives
        self._member_log = member_log
        self.on_member_time = on_member_time
        self.on_group_time = on_group_time
        self.groups: dict[str, Group] = {}

    def group(self, group_id: str) -> Group:
        """The group's record, made on first use."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(self, group_id)
            if len(self.groups) > self._environment.settings.groups_limit:
                self._evict_group(group)
        return group

    def _evict_group(self, newest: Group) -> None:
        """Make room by forgetting a group without members; what was known of it can be found out again."""
        for group in list(islice(self.groups.values(), _EVICTION_CANDIDATES)):
            del self.groups[group.group_id]
            if group is not newest and not (group.members or group.pending_switches or group.conversion):
                return
            self.groups[group.group_id] = group  # behind the others: they are looked at next

    def find(self, group_id: str, member_id: str) -> Member | None:
        """The member's record, joined or not; None if there is none."""
        group = self.groups.get(group_id)
        return None if group is None else group.members.get(member_id)

    def find_key(self, key: MemberKey) -> Member | None:
        """The member that the member log has under this key, which may have a hash in the place of a long id."""
        member = self.find(*key)
        group = self.groups.get(key.group_id)
        if member is None and group is not None and len(key.member_id) == LENGTH_OF_HASH:
            return next(
                (one for one in group.members.values() if shortened(one.member_id) == key.member_id), None
            )
        return member

    def member(self, group_id: str, member_id: str) -> Member:
        """The member's record, made on first use."""
        group = self.group(group_id)
        member = group.members.get(member_id)
        if member is None:
            member = group.members[member_id] = Member(self, group, member_id)
        return member

    def described(self, group_id: str, *, is_new: bool) -> None:
        """The broker has described a group. ``is_new``: without members, or with such only that have got nothing."""
        group = self.groups.get(group_id)
        if group is not None and is_new:
            group.initial_rebalance.found_new(self._environment.now)

    # -- who is who --------------------------------------------------------------------------------------------

    def is_ours(self, group_id: str, member_id: str) -> bool:
        """Whether a member of the new protocol is a classic client for which some process of Epochgate speaks."""
        member = self.find(group_id, member_id)
        if (member is not None and member.joined) or self._ids.is_issued(member_id):
            return True
        if self._member_log.is_translated(group_id, member_id):
            return True  # a classic member that had an id of a native one's form when it was converted
        return may_be_translated(member_id) and (group_id, member_id) not in self._natives

    def is_native(self, group_id: str, member_id: str) -> bool:
        """Whether this is the id of a member that speaks the new protocol by itself, as far as is known here."""
        if (group_id, member_id) not in self._natives:
            return False
        member = self.find(group_id, member_id)
        return not (member is not None and member.joined) and not self._member_log.is_translated(
            group_id, member_id
        )

    def relay(self, group: Group, member_id: str, until: float | None = None) -> None:
        """Relay the calls of a member that the broker has as a classic one, until a time (seconds).

        By default that is for ``relayed_s``; then the broker is asked again.
        """
        if len(member_id) > LONGEST_MEMBER_ID:
            return  # the broker is asked each time
        settings = self._environment.settings
        group.relayed_until.pop(member_id, None)
        group.relayed_until[member_id] = (
            self._environment.now + settings.relayed_s if until is None else until
        )
        if len(group.relayed_until) > settings.relayed_limit:
            del group.relayed_until[next(iter(group.relayed_until))]

    # -- what is forgotten -------------------------------------------------------------------------------------

    def drop_if_idle(self, member: Member) -> None:
        """Forget a member that has no membership and no procedure under way."""
        group = member.group
        if (
            not member.joined
            and not member.conversions
            and member.queue.idle
            and member.join.waiting is None
            and group.members.get(member.member_id) is member
        ):
            del group.members[member.member_id]
            member.queue.detach_owner()
            self._connections.unbind(member)
            self._member_log.release(member)
            if (
                member.client.instance_id is not None
                and group.static_members.get(member.client.instance_id) == member.member_id
            ):
                del group.static_members[member.client.instance_id]
            self.drop_group_if_empty(group)

    def drop_group_if_empty(self, group: Group) -> None:
        """Forget a group of which nothing is known that would have to be remembered."""
        nobody = not (
            group.members
            or group.relayed_until
            or group.asked_to_rejoin
            or group.pending_switches
            or group.leaving
            or group.conversion
            or group.asked_to_rejoin
            or group.dead
        )
        if (
            nobody
            and group.migration.is_unknown
            and self.groups.get(group.group_id)
            is group  # a procedure may hold an older record, forgotten since
        ):
            del self.groups[group.group_id]
