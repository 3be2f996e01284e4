"""Decides which server-side assignor a member votes for (the rule's ``assignor``, or what stands for its client's),
and when a vote changes.

A member's ConsumerGroupHeartbeat may name an assignor, and the broker uses the one that most members of the group name
(KIP-848, ``group.consumer.assignors``). :mod:`translation.policy.assignors` maps a client's own assignors to one of
them.
"""

from translation.engine.memberships import Memberships
from translation.members.member import Group, Member
from translation.policy.policy import Mode
from translation.policy.rule_cache import RuleCache

NO_VOTE = ""
"""``BrokerView.assignor`` of a member that was converted in place and has not voted.

See :mod:`translation.members.conversion`.
"""


def assignor_for(rules: RuleCache, member: Member) -> str:
    """The server-side assignor that a member votes for: what the policy says, else what stands in for the client's own.

    All members of a group that are served here vote for the same, that of the member that has been here for longest.
    Since Kafka 4.4 (KAFKA-20434) the group epoch moves whenever another assignor has most votes; with one vote each for
    two assignors the broker takes now one and now the other, and the group rebalances without end.
    """
    rule = rules.rule_for(member.group.group_id)
    if rule.assignor is not None:
        return rule.assignor
    members = member.group.members.values()
    return next(
        (one.client.mapped_assignor for one in members if one.joined and not one.adopted),
        member.client.mapped_assignor,
    )


def update_assignors(memberships: Memberships, rules: RuleCache, group: Group) -> None:
    """Have the members of a live group tell the broker their assignor, if it is another one now.

    It goes with a heartbeat, because brokers accept it in any, so no client has to join again. It takes effect when the
    broker next computes the group's assignment, since 4.4 at once.
    """
    if rules.rule_for(group.group_id).mode is not Mode.TRANSLATE:
        return
    changed = False
    for member in group.members.values():
        assignor = assignor_for(rules, member)
        if assignor != member.broker.effective_assignor:
            # Also while its first JoinGroup is under way with the older one.
            member.broker.effective_assignor = assignor
            changed = True
    if changed:
        memberships.heartbeat_group(group)


def changed_assignor(member: Member) -> str | None:
    """The assignor for the next heartbeat, None if the broker was told it before.

    That of an adopted member is unknown before its client joins.
    """
    unchanged = member.adopted or member.broker.assignor in (None, member.broker.effective_assignor)
    return None if unchanged else assignor_in_full(member)


def assignor_in_full(member: Member) -> str | None:
    """The assignor for a full heartbeat; None for a member that has been converted in place and may not vote yet."""
    conversion = member.group.conversion
    is_held = member.broker.assignor == NO_VOTE and conversion is not None and not conversion.votes
    return None if is_held else member.broker.effective_assignor
