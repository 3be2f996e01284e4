"""Which calls of a client the proxy relays untouched, so that the broker itself answers them: because of the policy,
the group, or because the member is a native one.

A group's calls are relayed if the policy does not have it translated, while the broker does not convert it
(:mod:`translation.members.group_migration`), and for members that are classic or native ones at the broker. JoinGroup,
by which members come, is looked at by :mod:`translation.routing.join_routing`.
"""

from translation.engine.context import Context
from translation.members.environment import Environment
from translation.members.member_ids import LONGEST_MEMBER_ID, may_be_translated
from translation.policy.policy import LONGEST_GROUP_ID, Mode


class RelayedCalls:
    """Knows which calls the broker itself answers."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._registry = context.registry
        self._member_log = context.member_log
        self._rules = context.rules
        self._classic_members = context.classic_members
        self._ids = context.ids

    def is_relayed(self, group_id: str, member_id: str) -> bool:
        """Whether the broker itself answers the requests of this member."""
        if not group_id:
            return True
        group = self._registry.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if member is not None and member.joined:
            return False  # whatever the policy says now: it is moved when its turn comes
        if self._rules.rule_for(group_id).mode is not Mode.TRANSLATE:
            return True
        if self._registry.is_native(group_id, member_id):
            return True
        if group is None:
            return False
        now = self._environment.now
        return group.migration.relays(now) or group.relayed_until.get(member_id, now) > now

    def may_be_translated_still(self, group_id: str, member_id: str) -> bool:
        """Whether the broker may have the member of a relayed call in the new protocol, from before this process
        started.

        Under ``observe`` no description was fetched for it. What the broker accepted as a classic member's call says
        no.
        """
        if self._classic_members.find(group_id, member_id) is not None:
            return False
        if self._rules.rule_for(group_id).mode is not Mode.OBSERVE or not member_id:
            return False
        if len(group_id) > LONGEST_GROUP_ID or len(member_id) > LONGEST_MEMBER_ID:
            return False  # nothing is kept of it, so it would be asked each time
        group = self._registry.groups.get(group_id)
        is_relayed_yet = (
            group is not None
            and group.relayed_until.get(member_id, self._environment.now) > self._environment.now
        )
        return not is_relayed_yet and not self.is_of_native(group_id, member_id)

    def is_of_native(self, group_id: str, member_id: str) -> bool:
        """Whether a request with a member epoch comes from a native member, whose epoch is the broker's own.

        The broker describes native and translated members alike; only the form of the member id tells them apart.
        """
        member = self._registry.find(group_id, member_id)
        if member is not None and (member.joined or not member.queue.idle):
            return False
        return not (
            self._ids.is_issued(member_id)
            or may_be_translated(member_id)
            or self._member_log.is_translated(group_id, member_id)
        )
